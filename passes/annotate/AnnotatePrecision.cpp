//===- AnnotatePrecision.cpp - Sets the precision policy ------------------===//
#include "dialects/nn/NN.h"
#include "mlir/IR/BuiltinOps.h"
#include "passes/annotate/Passes.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATEPRECISIONPASS
#include "passes/annotate/Passes.h.inc"

/// Returns the type that a flag names; null for other names.
static Type typeNamed(MLIRContext *context, StringRef name) {
  if (name == "f32")
    return Float32Type::get(context);
  if (name == "bf16")
    return BFloat16Type::get(context);
  return name == "f16" ? Type(Float16Type::get(context)) : Type();
}

namespace {
struct AnnotatePrecisionPass : impl::AnnotatePrecisionPassBase<AnnotatePrecisionPass> {
  using AnnotatePrecisionPassBase::AnnotatePrecisionPassBase;
  void runOnOperation() final {
    if (failed(annotate(getOperation())))
      signalPassFailure();
  }

private:
  LogicalResult annotate(ModuleOp module) {
    MLIRContext *context = module.getContext();
    auto unknown = [&](StringRef flag, StringRef value, StringRef known) {
      return module.emitError("--") << flag << "-dtype '" << value << "' is none of " << known;
    };
    const std::pair<StringRef, StringRef> words[] = {
        {"param", param}, {"reduce", reduce}, {"buffer", buffer}};
    SmallVector<Type> types;
    for (auto [flag, value] : words) {
      types.push_back(typeNamed(context, value));
      if (!types.back())
        return unknown(flag, value, "f32, bf16, f16");
    }
    if (master != "f32" && master != "none")
      return unknown("master", master, "f32, none");
    if (optimizer != "f32" && optimizer != "bf16")
      return unknown("optimizer", optimizer, "f32, bf16");
    Type kept = master == "none" ? types[0] : Type(Float32Type::get(context));
    auto policy = nn::PrecisionAttr::get(context, types[0], types[1], types[2], kept,
                                         typeNamed(context, optimizer));
    if (!policy.isFull())
      module->setAttr(nn::kPrecisionAttr, policy);
    return success();
  }
};
} // namespace

} // namespace shale
