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
#include "lib/Frontend/ONNX/Record/Finder.h"
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

/// Returns the name that an operation has for an operand of one of its nodes, where no node has a
/// value of that name; empty if it is not certain.
StringRef Finder::removedName(const Operation &operation, const NodeProto &node,
                              int operand) const {
  const std::string &read = node.input(operand);
  const Operation *maker = makers.lookup(read);
  auto isNamed = [&](StringRef name) { return llvm::is_contained(operation.fx.args, name); };
  if (maker == &operation || initializers.count(read) || !known.contains(read) || isNamed(read) ||
      (maker && isNamed(maker->fx.name)))
    return "";
  SmallVector<StringRef> names = missingNames(operation);
  llvm::erase_if(names, [&](StringRef name) { return isFolded(name); });
  if (const FormFitter::Meaning *meaning = fitter.meaningOf(node, operand)) {
    auto *name = llvm::find(names, StringRef(meaning->value));
    return name == names.end() ? "" : *name;
  }
  return names.size() == 1 ? names.front() : "";
}

/// Whether the derivative of an operation, or of one that reads its result moved, is unbounded near
/// an operand of 0.
bool Finder::isUnboundedAtZero(const Operation &operation) const {
  static const llvm::StringSet<> unbounded = {"sqrt",       "rsqrt", "log", "log2", "log10",
                                              "reciprocal", "div",   "pow", "acos", "acosh"};
  llvm::SmallSetVector<const Operation *, 4> reached;
  reached.insert(&operation);
  for (size_t at = 0; at < reached.size(); ++at) {
    if (unbounded.contains(reached[at]->kind()))
      return true;
    if (!isMovement(reached[at]->kind()))
      continue;
    for (const auto &entry : operations)
      if (llvm::is_contained(entry.second.fx.args, reached[at]->fx.name))
        reached.insert(&entry.second);
  }
  return false;
}

/// Whether a value is the result of an operation of this kind that reads a float initializer.
bool Finder::readsConstant(StringRef value, StringRef kind) const {
  const Operation *maker = makers.lookup(value);
  return maker && (maker->kind() == kind || operationOf(maker->fx.name) == kind) &&
         llvm::any_of(maker->nodes, [&](const NodeProto *node) {
           return llvm::any_of(node->input(),
                               [&](const std::string &name) { return initializers.count(name); });
         });
}

std::vector<RemovedRead> Finder::removedReads() const {
  std::vector<RemovedRead> reads;
  for (const auto &entry : operations) {
    const Operation &operation = entry.second;
    for (const NodeProto *node : operation.nodes)
      for (int i = 0; i < node->input_size(); ++i) {
        StringRef name = removedName(operation, *node, i);
        if (llvm::is_contained({"add", "sub", "mul", "div"}, operationOf(name)) &&
            !out.readsOfMerged.count({node, i}))
          reads.push_back({node, i, name.str(), operation.scope, readSourceText(*node).str(),
                           readerOf(operation, name), &operation,
                           readsConstant(node->input(i), operationOf(name))});
      }
  }
  return reads;
}

void Finder::restoreRemovedSums(llvm::ArrayRef<RemovedRead> reads) {
  const RemovedRead *first = nullptr; // that is lost, of `count`
  size_t count = 0;
  for (const RemovedRead &read : reads) {
    const NodeProto *node = read.node;
    std::pair<const NodeProto *, int> place(node, read.operand);
    std::string kind = operationOf(read.name);
    if ((kind != "add" && kind != "sub") || out.readsOfMerged.count(place) ||
        out.restored.count(place))
      continue;
    const std::string &operand = node->input(read.operand);
    const Operation *maker = makers.lookup(operand);
    bool mayBeMerged = maker && operationOf(maker->fx.name) == kind; // with an equal sum
    SmallVector<double> summands = summandsIn(read.source);
    if (summands.size() == 1) {
      out.restored[place] = {
          Expression::of(kind, Expression::ofInput(), Expression::ofNumber(summands[0])), {}};
      remark(node, "'" + read.name + "', which the export removed, is restored: " +
                       (kind == "add" ? "+ " : "- ") + shortest(summands[0]));
    } else if (!mayBeMerged && isUnboundedAtZero(*read.operation)) {
      first = first ? first : &read;
      ++count;
    }
  }
  if (count)
    out.errors.push_back(
        "node '" + displayName(first->node->name()) + "' reads '" +
        displayName(first->node->input(first->operand)) + "' where the model reads '%" +
        first->name + "' (" + first->source + ")" +
        (count > 1 ? ", and " + std::to_string(count - 1) + " more" : "") +
        ": the export removed a sum with a constant of at most 1e-8, and the constant is not in the file. "
        "Gradients near 0 depend on it. Export with torch.onnx.export(..., optimize=False)");
}
