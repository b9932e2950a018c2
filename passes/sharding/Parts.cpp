//===- Parts.cpp - Parameters that become others --------------------------===//
#include "passes/sharding/Parts.h"
#include "dialects/nn/NN.h"

using namespace mlir;

namespace shale {

func::FuncOp onlyFunction(ModuleOp module) {
  auto functions = module.getOps<func::FuncOp>();
  if (!llvm::hasSingleElement(functions) || (*functions.begin()).isExternal())
    return {};
  return *functions.begin();
}

BlockArgument PartBuilder::add(BlockArgument whole, const Twine &suffix, int64_t dim, int64_t begin,
                               int64_t size, int64_t padding) {
  nn::StateOp state = nn::getState(whole);
  auto type = cast<RankedTensorType>(whole.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = size;
  type = type.clone(shape);
  OpBuilder at(state);
  auto part = cast<nn::StateOp>(at.clone(*state));
  part.setSymName((state.getSymName() + "/" + suffix).str());
  part.setTypeAttr(TypeAttr::get(type));
  part.removeInitAttr();
  part.removeNamesAttr();
  part.setRole(nn::Role::Param);
  MLIRContext *context = function.getContext();
  part->setAttr(nn::kPartAttr,
                nn::PartAttr::get(context, FlatSymbolRefAttr::get(state), dim, begin, padding));
  NamedAttrList attrs(function.getArgAttrDict(whole.getArgNumber()));
  attrs.set(nn::kStateAttr, FlatSymbolRefAttr::get(part));
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type, attrs.getDictionary(context), whole.getLoc());
  return function.getArgument(index);
}

void PartBuilder::retire(BlockArgument whole) {
  nn::getState(whole).setRole(nn::Role::Divided);
  retired.resize(function.getNumArguments());
  retired.set(whole.getArgNumber());
}

void PartBuilder::finish() {
  if (retired.none())
    return;
  retired.resize(function.getNumArguments());
  (void)function.eraseArguments(retired);
}

} // namespace shale
