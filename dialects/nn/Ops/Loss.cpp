//===- Loss.cpp - Cross-entropy -------------------------------------------===//
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Reduce.h"
#include <limits>

using namespace mlir;
using namespace shale::nn;

static LogicalResult verifyLabels(Operation *op, Type logits, Type labels,
                                  std::optional<int64_t> classes) {
  auto l = cast<RankedTensorType>(logits);
  auto i = cast<RankedTensorType>(labels);
  if (l.getRank() != 2 || i.getRank() != 1 ||
      i.getDimSize(0) != l.getDimSize(0)) // cross_entropy_c1
    return op->emitOpError() << "expects logits [N, V] and labels [N]; got " << l << " and " << i;
  if (classes && (*classes < 1 || *classes > l.getDimSize(1))) // cross_entropy_c2
    return op->emitOpError() << "has " << *classes << " classes, but logits " << l;
  return success();
}

LogicalResult CrossEntropyOp::verify() {
  return verifyLabels(*this, getLogits().getType(), getLabels().getType(), getClasses());
}

LogicalResult CrossEntropyGradOp::verify() {
  return verifyLabels(*this, getLogits().getType(), getLabels().getType(), getClasses());
}

// Per element a subtraction, an exponential and a sum; the gradient costs the same.
int64_t CrossEntropyOp::getFlops() {
  return 3 * cast<RankedTensorType>(getLogits().getType()).getNumElements();
}
int64_t CrossEntropyGradOp::getFlops() {
  return 3 * cast<RankedTensorType>(getType()).getNumElements();
}

std::optional<shale::IndexRange> CrossEntropyOp::getIndexRange(unsigned number) {
  if (number != getLabelsMutable().getOperandNumber())
    return std::nullopt;
  int64_t columns = cast<RankedTensorType>(getLogits().getType()).getDimSize(1);
  return shale::IndexRange{int64_t(getClasses().value_or(columns)), getIgnoreIndex()};
}

SmallVector<Value> CrossEntropyOp::buildWithoutLogits(OpBuilder &builder) {
  auto labels = cast<RankedTensorType>(getLabels().getType());
  auto rows = labels.clone(cast<RankedTensorType>(getCount().getType()).getElementType());
  Value counted = countedRows(builder, getLoc(), getLabels(), getIgnoreIndex());
  Value one = splat(builder, getLoc(), rows, 1);
  Value zero = splat(builder, getLoc(), rows, 0);
  Value ones = SelectOp::create(builder, getLoc(), counted, one, zero);
  Value count = ReduceOp::create(builder, getLoc(), getCount().getType(), ReduceKind::Sum, ones,
                                 builder.getDenseI64ArrayAttr({0}));
  return {Value(), count, Value()};
}

Value shale::nn::countedRows(OpBuilder &builder, Location loc, Value labels, int64_t ignored) {
  auto type = cast<RankedTensorType>(labels.getType());
  RankedTensorType bits = type.clone(builder.getI1Type());
  unsigned width = type.getElementTypeBitWidth();
  if (!llvm::isIntN(width, ignored)) // no label is ignored
    return splat(builder, loc, bits, 1);
  llvm::APInt index(width, ignored, /*isSigned=*/true);
  Value constant = ConstantOp::create(builder, loc, DenseElementsAttr::get(type, index));
  return CompareOp::create(builder, loc, bits, Predicate::NE, labels, constant);
}

Value shale::nn::withoutClassesFrom(OpBuilder &builder, Location loc, Value logits,
                                    int64_t classes) {
  auto type = cast<RankedTensorType>(logits.getType());
  RankedTensorType index = type.clone(builder.getI64Type());
  Value column = IotaOp::create(builder, loc, index, 1);
  Value exists = CompareOp::create(builder, loc, type.clone(builder.getI1Type()), Predicate::LT,
                                   column, splat(builder, loc, index, classes));
  Value absent = splat(builder, loc, type, -std::numeric_limits<double>::infinity());
  return SelectOp::create(builder, loc, exists, logits, absent);
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Loss.cpp.inc"

void shale::nn::registerLossOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Loss.cpp.inc"
      >();
}
