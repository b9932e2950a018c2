//===- ClusterKernels.cpp - The kernels of a module's clusters ------------===//
#include "dialects/nn/Ops/Cluster.h"
#include "lib/Codegen/KernelEquality.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "passes/codegen/Kernel.h"
#include "passes/codegen/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace shale {
#define GEN_PASS_DEF_CLUSTERKERNELSPASS
#include "passes/codegen/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

nn::ClusterOp shale::isolate(Operation *op, ArrayRef<Operation *> casts) {
  OpBuilder builder(op);
  SmallVector<Type> types(op->getResultTypes());
  for (Operation *cast : casts)
    types.push_back(cast->getResult(0).getType());
  auto cluster =
      nn::ClusterOp::create(builder, op->getLoc(), types, op->getOperands(), DenseI64ArrayAttr());
  Block *body = builder.createBlock(&cluster.getBody());
  IRMapping mapping;
  for (Value operand : op->getOperands()) {
    Value argument = body->addArgument(operand.getType(), operand.getLoc());
    if (!mapping.contains(operand))
      mapping.map(operand, argument);
  }
  SmallVector<Value> results(builder.clone(*op, mapping)->getResults());
  for (Operation *cast : casts)
    results.push_back(builder.clone(*cast, mapping)->getResult(0));
  nn::YieldOp::create(builder, op->getLoc(), results);
  return cluster;
}

void shale::isolateOwnKernels(ModuleOp module, const Target &target) {
  module.walk([&](Operation *op) {
    if (!target.hasOwnKernel(op) || op->getParentOfType<nn::ClusterOp>())
      return;
    nn::ClusterOp cluster = isolate(op);
    op->replaceAllUsesWith(cluster.getResults());
    op->erase();
  });
}

namespace {

struct ClusterKernelsPass : shale::impl::ClusterKernelsPassBase<ClusterKernelsPass> {
  using ClusterKernelsPassBase::ClusterKernelsPassBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    const Target *target = targetOf(module);
    if (!target)
      return signalPassFailure();
    isolateOwnKernels(module, *target);
    SmallVector<Operation *> old = llvm::to_vector(llvm::make_pointer_range(*module.getBody()));
    SmallVector<nn::ClusterOp> different;
    module.walk([&](nn::ClusterOp cluster) {
      if (llvm::none_of(different, [&](nn::ClusterOp other) {
            return equalKernels(cluster.getBody(), other.getBody());
          }))
        different.push_back(cluster);
    });
    for (auto [i, cluster] : llvm::enumerate(different)) {
      FailureOr<KernelInfo> info =
          target->generateKernel(module, "kernel_" + std::to_string(i), cluster.getBody());
      if (failed(info))
        return signalPassFailure();
      emitDecision(
          cluster.getLoc(), "cluster-kernels",
          llvm::formatv("kernel_{0}: {1} rows, grain {2}", i, info->rows, info->grain).str());
    }
    for (Operation *op : old)
      op->erase();
    if (lower && failed(target->lowerKernels(module)))
      signalPassFailure();
  }
};

} // namespace
