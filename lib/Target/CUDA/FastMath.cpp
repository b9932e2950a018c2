//===- FastMath.cpp - Approximations by the hardware ------------------------===//
#include "lib/Target/CUDA/FastMath.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace shale;

/// Whether an op is an exp, a tanh or a division of f32.
static bool hasApproximation(Operation *op) {
  return isa<math::ExpOp, math::TanhOp, arith::DivFOp>(op) && op->getResult(0).getType().isF32();
}

void cuda::allowApproximations(Operation *kernel) {
  auto allowed = arith::FastMathFlagsAttr::get(kernel->getContext(), arith::FastMathFlags::afn);
  kernel->walk([&](arith::ArithFastMathInterface op) {
    if (hasApproximation(op))
      op->setAttr(op.getFastMathAttrName(), allowed);
  });
}

void cuda::useApproximations(Operation *kernels) {
  kernels->walk([](arith::ArithFastMathInterface op) {
    auto flags = op.getFastMathFlagsAttr();
    if (!hasApproximation(op) || !flags ||
        !arith::bitEnumContainsAll(flags.getValue(), arith::FastMathFlags::afn))
      return;
    OpBuilder b(op);
    Location loc = op.getLoc();
    SmallVector<Value> operands(op->getOperands());
    StringRef name = isa<math::TanhOp>(op)    ? "llvm.tanh"
                     : isa<arith::DivFOp>(op) ? "llvm.nvvm.div.full"
                                              : "llvm.nvvm.ex2.approx";
    if (isa<math::ExpOp>(op)) {
      Value log2e = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(0x1.715476p+0f));
      operands[0] = arith::MulFOp::create(b, loc, operands[0], log2e);
    }
    auto call =
        LLVM::CallIntrinsicOp::create(b, loc, b.getF32Type(), b.getStringAttr(name), operands);
    call.setFastmathFlags(LLVM::FastmathFlags::afn); // of tanh, the name of both versions
    op->replaceAllUsesWith(call);
    op->erase();
  });
}
