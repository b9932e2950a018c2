//===- Removed.cpp - Sums that PyTorch's exporter removed -----------------===//
//
// The optimizer of PyTorch's exporter removes x + c, x - c, x * c and x / c where c does nothing.
// Until it compared exactly, it took a constant for 0 if it was at most 1e-8, and for 1 if it was
// within 1e-5 of it. A small summand keeps roots, logarithms and quotients finite, so it must not
// get lost. What read the sum still names it: a Sqrt that reads `sum_1` is recorded as sqrt(%add).
// The constant is not in the file. Source: onnxscript's rewriter/rules/common/_no_op.py and
// rewriter/_pattern_ir.py (Constant: rel_tol, abs_tol).
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Record/Messages.h"
#include "lib/Frontend/ONNX/Record/Rules.h"

using namespace shale;
using namespace shale::onnx;

/// An error for the first sum that gradients depend on.
Findings rules::removedSums(const Known &known) {
  const RemovedRead *first = nullptr; // of `count`
  size_t count = 0;
  for (const RemovedRead &read : known.removedReads) {
    Place place(read.node, read.operand);
    std::string kind = operationOf(read.name);
    const Operation *maker = known.program.makerOf(read.node->input(read.operand));
    bool mayBeMerged = maker && operationOf(maker->fx.name) == kind; // with an equal sum
    if (!words::is(kind, words::Trait::IsSum) || known.found.readsOfMerged.count(place) ||
        known.found.restored.count(place) || mayBeMerged ||
        !known.program.isUnboundedAtZero(*read.operation))
      continue;
    first = first ? first : &read;
    ++count;
  }
  return count ? Findings::error(messages::lostSum(*first, count)) : Findings();
}
