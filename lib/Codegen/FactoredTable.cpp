//===- FactoredTable.cpp - Segments of factored moments as constants ------===//
#include "lib/Codegen/FactoredTable.h"
#include "dialects/nn/Ops/Optimizer.h"

using namespace mlir;
using namespace shale;

FactoredTable::FactoredTable(ArrayAttr ranges) {
  SmallVector<int64_t> numbers;
  SmallVector<float> factors;
  for (auto range : ranges.getAsRange<nn::FactoredRangeAttr>()) {
    nn::Factors shape = range.getFactors();
    numbers.append({range.getOffset(), range.getCount(), range.getAt(), shape.matrices, shape.rows,
                    shape.columns});
    factors.push_back(range.getDecay().getValueAsDouble());
  }
  if (factors.empty()) {
    numbers.append(kFields, 0);
    factors.push_back(0);
  }
  Builder b(ranges.getContext());
  segments = DenseElementsAttr::get(
      RankedTensorType::get({int64_t(numbers.size())}, b.getI64Type()), ArrayRef(numbers));
  decays = DenseElementsAttr::get(RankedTensorType::get({int64_t(factors.size())}, b.getF32Type()),
                                  ArrayRef(factors));
}

LogicalResult shale::checkFactoredTypes(Operation *op, ValueRange large, ValueRange small) {
  auto elementOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  for (Value value : large)
    if (Type type = elementOf(value); !type.isF32() && !is16BitFloat(type))
      return op->emitOpError() << "has a kernel for f32 and 16-bit floats only; got " << type;
  for (Value value : small)
    if (Type type = elementOf(value); !type.isF32())
      return op->emitOpError() << "has a kernel for means in f32 only; got " << type;
  return success();
}
