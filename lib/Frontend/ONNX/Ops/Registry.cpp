//===- Registry.cpp - All op handlers -------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace shale::onnx;

HandlerRegistry &shale::onnx::getHandlers() {
  static HandlerRegistry registry = [] {
    HandlerRegistry all;
    registerActivationOps(all);
    registerAttentionOps(all);
    registerChannelNormOps(all);
    registerChoiceOps(all);
    registerConstantOps(all);
    registerControlOps(all);
    registerConvOps(all);
    registerConvTransposeOps(all);
    registerDataOps(all);
    registerEinsumOps(all);
    registerElementwiseOps(all);
    registerFourierOps(all);
    registerIndexOps(all);
    registerLossOps(all);
    registerMatmulOps(all);
    registerNormOps(all);
    registerRandomOps(all);
    registerRecurrentOps(all);
    registerReduceOps(all);
    registerResizeOps(all);
    registerRuntimeAttentionOps(all);
    registerScatterOps(all);
    registerSequenceOps(all);
    return all;
  }();
  return registry;
}
