//===- Random.cpp - Elements of ops that draw random numbers ---------------===//
#include "dialects/nn/Emit/Random.h"
#include "dialects/nn/Ops/Random.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

Access DropoutOp::getAccess(unsigned number) { return number == 0 ? Access::Same : Access::Any; }

Value DropoutOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  Location loc = getLoc();
  auto type = cast<RankedTensorType>(getType());
  ArrayRef<int64_t> whole = getGlobalShape() ? *getGlobalShape() : type.getShape();
  // If only the first dimension is split, elements are numbered as in the whole, from the offset
  // on.
  LinearIndex element = index;
  if (type.getRank() > 0 && whole.drop_front() != type.getShape().drop_front()) {
    SmallVector<LinearIndex> indices;
    if (!emitter.delinearize(index, type.getShape(), indices))
      return nullptr;
    element = linearize(indices, whole);
  }
  Value input = emitter.emit(getInput(), index);
  Value seed = emitter.emit(getSeed(), LinearIndex()),
        step = emitter.emit(getStep(), LinearIndex()),
        microbatch = emitter.emit(getMicrobatch(), LinearIndex());
  Value offset = getOffset() ? emitter.emit(getOffset(), LinearIndex()) : Value();
  if (!input || !seed || !step || !microbatch || (getOffset() && !offset))
    return nullptr;

  RandomWords words{b, loc};
  int64_t count = 1;
  for (int64_t size : whole)
    count *= size;
  Value low, high;
  if (count <= INT32_MAX) {
    low = emitter.number(element, b.getI32Type());
    if (offset)
      low = words.sum(low, words.split(offset).first);
    high = words.constant(0);
  } else {
    Value number = emitter.number(element, b.getI64Type());
    if (offset)
      number = words.sum(number, offset);
    std::tie(low, high) = words.split(number);
  }
  Value place = arith::ShLIOp::create(b, loc, words.split(microbatch).first, words.constant(16));
  auto [key0, key1] = words.split(seed);
  Value id = words.constant(static_cast<uint32_t>(getId()));
  Value word = words.philox({low, words.sum(high, place), words.split(step).first, id}, key0, key1);

  double ratio = getRatio().convertToDouble();
  Value threshold = words.constant(dropThreshold(ratio));
  words.match(word, threshold);
  Value kept = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, word, threshold);
  Value scaled =
      arith::MulFOp::create(b, loc, input, constantLike(b, loc, input.getType(), 1 / (1 - ratio)));
  Value zero = constantLike(b, loc, scaled.getType(), 0);
  // One of the two may be a vector while the other is a scalar.
  if (isa<VectorType>(kept.getType()) != isa<VectorType>(scaled.getType())) {
    scaled = emitter.widen(index, scaled);
    zero = emitter.widen(index, zero);
    kept = emitter.widen(index, kept);
  }
  return arith::SelectOp::create(b, loc, kept, scaled, zero);
}
