//===- KernelEquality.cpp - Structural equality of kernels ----------------===//
#include "lib/Codegen/KernelEquality.h"
#include "mlir/IR/OperationSupport.h"

using namespace mlir;
using namespace shale;

static constexpr auto kIgnored = OperationEquivalence::Flags(
    OperationEquivalence::IgnoreLocations | OperationEquivalence::IgnoreDiscardableAttrs);

bool shale::equalKernels(Region &lhs, Region &rhs) {
  return OperationEquivalence::isRegionEquivalentTo(&lhs, &rhs, kIgnored);
}

uint64_t shale::hashKernel(Region &body) {
  llvm::hash_code hash = llvm::hash_value(body.getNumArguments());
  for (Operation &op : body.front())
    hash = llvm::hash_combine(
        hash, OperationEquivalence::computeHash(&op, OperationEquivalence::ignoreHashValue,
                                                OperationEquivalence::ignoreHashValue, kIgnored));
  return hash;
}
