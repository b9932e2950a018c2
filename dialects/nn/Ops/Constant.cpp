//===- Constant.cpp - Values without operands -----------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Verify.h"

using namespace mlir;
using namespace shale;
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

//===- Helpers ------------------------------------------------------------===//

DenseElementsAttr nn::reduceRepeated(DenseElementsAttr attr) {
  auto type = cast<RankedTensorType>(attr.getType());
  SmallVector<int64_t> shape(type.getShape());
  if (attr.isSplat()) {
    shape.assign(shape.size(), 1);
    return attr.resizeSplat(RankedTensorType::get(shape, type.getElementType()));
  }
  ArrayRef<char> raw = attr.getRawData();
  int64_t element = raw.size() / std::max<int64_t>(1, attr.getNumElements());
  if (element * attr.getNumElements() != int64_t(raw.size()))
    return attr;
  // From the outside in: [outer, size, inner] equals its first slice everywhere.
  // A constant that does not repeat is not copied.
  SmallVector<char> copy;
  ArrayRef<char> kept = raw;
  int64_t outer = 1;
  for (size_t dim = 0; dim < shape.size(); ++dim) {
    int64_t size = shape[dim];
    int64_t inner = int64_t(kept.size()) / std::max<int64_t>(1, outer * size);
    bool same = size > 1 && inner > 0;
    for (int64_t o = 0; o < outer && same; ++o)
      for (int64_t i = 1; i < size && same; ++i)
        same = std::memcmp(&kept[o * size * inner], &kept[(o * size + i) * inner], inner) == 0;
    if (same) {
      if (copy.empty())
        copy.resize(outer * inner);
      for (int64_t o = 0; o < outer; ++o)
        std::memmove(&copy[o * inner], &kept[o * size * inner], inner);
      copy.truncate(outer * inner);
      kept = copy;
      shape[dim] = 1;
    }
    outer *= shape[dim];
  }
  if (kept.size() == raw.size())
    return attr;
  return DenseElementsAttr::getFromRawBuffer(RankedTensorType::get(shape, type.getElementType()),
                                             kept);
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
