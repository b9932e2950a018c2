//===- AnnotatePrecision.cpp - Sets the precision policy ------------------===//
#include "dialects/nn/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATEPRECISIONPASS
#include "passes/annotate/Passes.h.inc"

static Type typeOf(MLIRContext *context, FloatKind kind) {
  switch (kind) {
  case FloatKind::F32:
    return Float32Type::get(context);
  case FloatKind::BF16:
    return BFloat16Type::get(context);
  case FloatKind::F16:
    return Float16Type::get(context);
  }
  llvm_unreachable("all types are listed");
}

namespace {
struct AnnotatePrecisionPass : impl::AnnotatePrecisionPassBase<AnnotatePrecisionPass> {
  using AnnotatePrecisionPassBase::AnnotatePrecisionPassBase;
  void runOnOperation() final {
    MLIRContext *context = &getContext();
    Type f32 = Float32Type::get(context), used = typeOf(context, paramDtype);
    auto policy = nn::PrecisionAttr::get(
        context, used, typeOf(context, reduceDtype), typeOf(context, bufferDtype),
        masterDtype == MasterKind::None ? used : f32,
        optimizerDtype == MomentKind::BF16 ? Type(BFloat16Type::get(context)) : f32);
    if (!policy.isFull())
      getOperation()->setAttr(nn::kPrecisionAttr, policy);
  }
};
} // namespace

} // namespace shale
