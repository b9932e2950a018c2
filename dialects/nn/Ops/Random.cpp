//===- Random.cpp - Ops that draw random numbers ---------------------------===//
#include "dialects/nn/Ops/Random.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale::nn;

LogicalResult DropoutOp::verify() {
  double ratio = getRatio().convertToDouble();
  if (!(ratio >= 0 && ratio < 1)) // dropout_c1
    return emitOpError() << "ratio must be in [0, 1); got " << ratio;
  if (getId() > UINT32_MAX)
    return emitOpError() << "id must be in [0, 2^32); got " << getId();
  auto type = cast<RankedTensorType>(getType());
  ArrayRef<int64_t> whole = type.getShape();
  if (auto shape = getGlobalShape()) { // dropout_c2
    whole = *shape;
    bool fits = static_cast<int64_t>(whole.size()) == type.getRank();
    for (int64_t d = 0; fits && d < type.getRank(); ++d)
      fits = whole[d] >= type.getDimSize(d);
    if (!fits)
      return emitOpError() << "the whole must have rank " << type.getRank()
                           << " and no dimension smaller than in " << type;
  } else if (getOffset()) {
    return emitOpError() << "'offset' needs the shape of the whole";
  }
  int64_t count = 1;
  for (int64_t size : whole) // dropout_c3
    if (llvm::MulOverflow(count, size, count) || count > (int64_t(1) << 48))
      return emitOpError() << "the whole must have at most 2^48 elements";
  return success();
}

SmallVector<Value> DropoutOp::buildEvaluation(OpBuilder &) { return {getInput()}; }

// One multiplication per element; the integer operations of the generator are not counted.
int64_t DropoutOp::getFlops() { return cast<RankedTensorType>(getType()).getNumElements(); }

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Random.cpp.inc"

void shale::nn::registerRandomOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Random.cpp.inc"
      >();
}
