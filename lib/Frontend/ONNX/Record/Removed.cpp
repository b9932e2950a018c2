//===- Removed.cpp - Sums that PyTorch's exporter removed -----------------===//
//
// The optimizer of PyTorch's exporter removes x + c, x - c, x * c and x / c where c does nothing.
// Until it compared exactly, it took a constant for 0 if it was at most 1e-8, and for 1 if it was
// within 1e-5 of it. A small summand keeps roots, logarithms and quotients finite, so it must not
// get lost. What read the sum still names it: a Sqrt that reads `sum_1` is recorded as sqrt(%add).
// Its line of source is usually that of the sum. Source: onnxscript's
// rewriter/rules/common/_no_op.py and rewriter/_pattern_ir.py (Constant: rel_tol, abs_tol).
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Regex.h"

using namespace shale;
using namespace shale::onnx;
using llvm::SmallVector;
using llvm::StringRef;

/// Whether text around a number of a line of Python shows that it is no summand: a keyword
/// argument, an assigned value, or the first argument of a call.
static bool isArgument(StringRef before, StringRef after) {
  before = before.rtrim();
  bool isCall = before.consume_back("(") && !before.empty() &&
                (llvm::isAlnum(before.back()) || before.back() == '_');
  return (isCall || before.ends_with("=")) && !after.ltrim().starts_with("+");
}

/// Returns the summands of a line of Python that the exporter takes for 0, except 0 itself, each
/// once.
static SmallVector<double> summandsIn(StringRef whole) {
  SmallVector<double> found;
  StringRef line = whole;
  llvm::Regex number(
      "(^|[^A-Za-z_0-9.])([0-9]+\\.?[0-9]*([eE][-+]?[0-9]+)?|\\.[0-9]+([eE][-+]?[0-9]+)?)");
  SmallVector<StringRef> groups;
  while (number.match(line, &groups)) {
    double value = 0;
    StringRef before = whole.take_front(groups[2].begin() - whole.begin());
    line = line.drop_front(groups[2].end() - line.begin());
    if (!groups[2].getAsDouble(value) && value > 0 && value <= kTakenForZero &&
        !isArgument(before, line) && !llvm::is_contained(found, value))
      found.push_back(value);
  }
  return found;
}

/// Restores sums from the only small number in the line of source, and adds an error for the others
/// if their gradients depend on it.
Findings rules::removedSums(const Known &known) {
  Findings findings;
  const RemovedRead *first = nullptr; // that is lost, of `count`
  size_t count = 0;
  for (const RemovedRead &read : known.removedReads) {
    Place place(read.node, read.operand);
    std::string kind = operationOf(read.name);
    if (!words::is(kind, words::Trait::IsSum) || known.found.readsOfMerged.count(place) ||
        known.found.restored.count(place))
      continue;
    const Operation *maker = known.program.makerOf(read.node->input(read.operand));
    bool mayBeMerged = maker && operationOf(maker->fx.name) == kind; // with an equal sum
    SmallVector<double> summands = summandsIn(read.source);
    if (summands.size() == 1) {
      findings.claim(
          Evidence::Source,
          RestoredClaim{
              place,
              {Expression::of(kind, Expression::ofInput(), Expression::ofNumber(summands[0])), {}}},
          messages::removedOperation(*read.node, read.name,
                                     (kind == "add" ? "+ " : "- ") + shortest(summands[0])));
    } else if (!mayBeMerged && known.program.isUnboundedAtZero(*read.operation)) {
      first = first ? first : &read;
      ++count;
    }
  }
  if (count)
    findings.errors.push_back(messages::lostSum(*first, count));
  return findings;
}
