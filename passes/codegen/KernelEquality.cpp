//===- KernelEquality.cpp - Structural equality of kernels ----------------===//
#include "mlir/IR/OperationSupport.h"
#include "passes/codegen/Kernel.h"

using namespace mlir;
using namespace shale;

// Returns the discardable attributes that affect what an op computes. Locations,
// scopes and phases only tell where it came from.
static DictionaryAttr meaning(Operation *op) {
  SmallVector<NamedAttribute> kept;
  for (NamedAttribute attr : op->getDiscardableAttrs())
    if (!attr.getName().strref().contains('.'))
      kept.push_back(attr);
  return DictionaryAttr::get(op->getContext(), kept);
}

static bool equalOps(Operation *lhs, Operation *rhs) {
  return lhs->getName() == rhs->getName() &&
         lhs->getPropertiesAsAttribute() == rhs->getPropertiesAsAttribute() &&
         meaning(lhs) == meaning(rhs) && lhs->getResultTypes() == rhs->getResultTypes() &&
         lhs->getNumOperands() == rhs->getNumOperands();
}

bool shale::equalKernels(Region &lhs, Region &rhs) {
  Block &left = lhs.front(), &right = rhs.front();
  if (left.getArgumentTypes() != right.getArgumentTypes() ||
      left.getOperations().size() != right.getOperations().size())
    return false;
  DenseMap<Value, Value> same;
  for (auto [x, y] : llvm::zip(left.getArguments(), right.getArguments()))
    same[x] = y;
  for (auto [x, y] : llvm::zip(left, right)) {
    if (!equalOps(&x, &y))
      return false;
    for (auto [p, q] : llvm::zip(x.getOperands(), y.getOperands()))
      if (same.lookup(p) != q)
        return false;
    for (auto [p, q] : llvm::zip(x.getResults(), y.getResults()))
      same[p] = q;
  }
  return true;
}
