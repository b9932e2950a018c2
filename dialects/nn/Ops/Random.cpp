//===- Random.cpp - Ops that draw random numbers ---------------------------===//
#include "dialects/nn/Ops/Random.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale::nn;

/// Checks the id and the place in the whole of numbers for elements of `type`.
static LogicalResult verifyNumbers(Operation *op, RankedTensorType type, uint64_t id,
                                   std::optional<ArrayRef<int64_t>> shape, Value offset) {
  if (id > UINT32_MAX) // dropout_c1, uniform_c1
    return op->emitOpError() << "id must be in [0, 2^32); got " << int64_t(id);
  ArrayRef<int64_t> whole = type.getShape();
  if (shape) { // dropout_c2, uniform_c2
    whole = *shape;
    bool fits = static_cast<int64_t>(whole.size()) == type.getRank();
    for (int64_t d = 0; fits && d < type.getRank(); ++d)
      fits = whole[d] >= type.getDimSize(d);
    if (!fits)
      return op->emitOpError() << "the whole must have rank " << type.getRank()
                               << " and no dimension smaller than in " << type;
  } else if (offset) {
    return op->emitOpError() << "'offset' needs the shape of the whole";
  }
  int64_t count = 1;
  for (int64_t size : whole) // dropout_c3, uniform_c3
    if (llvm::MulOverflow(count, size, count) || count > (int64_t(1) << 48))
      return op->emitOpError() << "the whole must have at most 2^48 elements";
  return success();
}

LogicalResult DropoutOp::verify() {
  double ratio = getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio < 1)) // dropout_c1
    return emitOpError() << "ratio must be in [0, 1); got " << ratio;
  return verifyNumbers(*this, cast<RankedTensorType>(getType()), getId(), getGlobalShape(),
                       getOffset());
}

LogicalResult UniformOp::verify() {
  return verifyNumbers(*this, cast<RankedTensorType>(getType()), getId(), getGlobalShape(),
                       getOffset());
}

SmallVector<Value> DropoutOp::buildEvaluation(OpBuilder &) { return {getInput()}; }

SmallVector<Value> UniformOp::buildEvaluation(OpBuilder &builder) {
  Value zero = splat(builder, getLoc(), cast<RankedTensorType>(getSeed().getType()), 0);
  zero.getDefiningOp()->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  auto op = UniformOp::create(builder, getLoc(), getType(), zero, zero, zero, /*offset=*/Value(),
                              getIdAttr(), getGlobalShapeAttr());
  op->setDiscardableAttrs((*this)->getDiscardableAttrDictionary());
  return {op};
}

// One multiplication per element; the integer operations of the generator are not counted.
int64_t DropoutOp::getFlops() { return cast<RankedTensorType>(getType()).getNumElements(); }
int64_t UniformOp::getFlops() { return cast<RankedTensorType>(getType()).getNumElements(); }

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Random.cpp.inc"

void shale::nn::registerRandomOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Random.cpp.inc"
      >();
}
