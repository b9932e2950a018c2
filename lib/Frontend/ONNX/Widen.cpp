//===- Widen.cpp - Converts 16-bit floats to f32 --------------------------===//
//
// A model that was converted to bf16 has bf16 in every type, and casts around
// the ops that PyTorch computes in f32. The precision stage does the same from a
// policy, so the graph is converted to the form of a model in f32: one set of
// patterns recovers attention and norms from both, and the model can also be
// trained in f32. Constants keep the values of the file, as rounded there.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Frontend/ONNX/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

Type narrowOf(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && is16BitFloat(tensor.getElementType()) ? tensor.getElementType() : Type();
}

RankedTensorType widened(Type type) {
  return cast<RankedTensorType>(type).clone(Float32Type::get(type.getContext()));
}

/// Sums of an amount by element type.
using Shares = llvm::MapVector<Type, double>;

/// Returns the 16-bit float type with at least half of the total; null if there is none.
Type mostOf(const Shares &shares) {
  double total = 0;
  for (auto [element, share] : shares)
    total += share;
  for (auto [element, share] : shares)
    if (is16BitFloat(element) && share * 2 >= total && share > 0)
      return element;
  return {};
}

/// Returns the file's 16-bit float type, or null. Parameters decide; if they are f32 and the graph
/// casts them, its products decide, by FLOPs.
Type fileType(ModuleOp module) {
  Shares parameters, products;
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getRole() == nn::Role::Param)
      parameters[state.getTensorType().getElementType()] +=
          double(state.getTensorType().getNumElements());
  module.walk([&](Operation *op) {
    if (auto costed = dyn_cast<CostOpInterface>(op))
      if (auto type = dyn_cast<RankedTensorType>(op->getOperand(0).getType()))
        products[type.getElementType()] += double(costed.getFlops());
  });
  Type kept = mostOf(parameters);
  return kept ? kept : mostOf(products);
}

void widenState(nn::StateOp state) {
  Type narrow = narrowOf(state.getTensorType());
  if (!narrow)
    return;
  if (auto file = dyn_cast_or_null<nn::FileAttr>(state.getInitAttr()))
    state.setInitAttr(nn::FileAttr::get(state.getContext(), file.getPath(), file.getOffset(),
                                        file.getLength(), file.getTransposed(), narrow));
  state.setType(widened(state.getTensorType()));
}

void widenConstant(nn::ConstantOp constant) {
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (!dense || !is16BitFloat(dense.getElementType()))
    return;
  constant.setValueAttr(cast<DenseElementsAttr>(
      dense.mapValues(Float32Type::get(constant.getContext()), [](const APFloat &value) {
        APFloat wide = value;
        bool inexact;
        wide.convert(APFloat::IEEEsingle(), APFloat::rmNearestTiesToEven, &inexact);
        return wide.bitcastToAPInt();
      })));
}

} // namespace

void onnx::widen16BitFloats(ModuleOp module) {
  bool any = false;
  auto widen = [&](Value value) {
    if (!narrowOf(value.getType()))
      return;
    value.setType(widened(value.getType()));
    any = true;
  };
  Type kept = fileType(module);
  for (auto state : module.getOps<nn::StateOp>())
    widenState(state);
  for (auto function : module.getOps<func::FuncOp>()) {
    Block &body = function.getBody().front();
    llvm::for_each(body.getArguments(), widen);
    for (Operation &op : llvm::make_early_inc_range(body)) {
      if (auto constant = dyn_cast<nn::ConstantOp>(op))
        widenConstant(constant);
      llvm::for_each(op.getResults(), widen);
      // A cast between float types may have become a no-op.
      auto cast = dyn_cast<nn::CastOp>(op);
      if (cast && cast.getInput().getType() == cast.getType()) {
        cast.replaceAllUsesWith(cast.getInput());
        cast.erase();
      }
    }
    function.setFunctionType(FunctionType::get(module.getContext(), body.getArgumentTypes(),
                                               body.getTerminator()->getOperandTypes()));
  }
  if (any && kept)
    module->setAttr(nn::kFileTypeAttr, TypeAttr::get(kept));
}
