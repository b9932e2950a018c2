//===- Constant.cpp - Values without operands -----------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Verify.h"

using namespace mlir;
using namespace shale::nn;

void ConstantOp::build(OpBuilder &, OperationState &state, ElementsAttr value) {
  state.addAttribute(getValueAttrName(state.name), value);
  state.addTypes(value.getType());
}

LogicalResult ConstantOp::verify() {
  if (getValue().getShapedType() != getType()) // constant_c1
    return emitOpError() << "value is " << getValue().getShapedType() << ", the result "
                         << getType();
  return success();
}

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValueAttr(); }

// ---- iota

LogicalResult IotaOp::verify() { // iota_c1
  return verifyDim(*this, getDim(), cast<RankedTensorType>(getType()).getRank());
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Constant.cpp.inc"

void shale::nn::registerConstantOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Constant.cpp.inc"
      >();
}
