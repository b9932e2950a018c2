//===- Random.cpp - Elements of ops that draw random numbers ---------------===//
#include "dialects/nn/Emit/Random.h"
#include "dialects/nn/Ops/Random.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

Access DropoutOp::getAccess(unsigned number) { return number == 0 ? Access::Same : Access::Any; }

/// Builds the word that an element of the op draws; null if an operand cannot be computed here.
template <typename OpT>
static Value drawWord(OpT op, RandomWords &words, ElementEmitter &emitter,
                      const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  Location loc = op.getLoc();
  auto type = cast<RankedTensorType>(op.getType());
  ArrayRef<int64_t> whole = op.getGlobalShape() ? *op.getGlobalShape() : type.getShape();
  // If only the first dimension is split, elements are numbered as in the whole, from the offset
  // on.
  LinearIndex element = index;
  if (type.getRank() > 0 && whole.drop_front() != type.getShape().drop_front()) {
    SmallVector<LinearIndex> indices;
    if (!emitter.delinearize(index, type.getShape(), indices))
      return nullptr;
    element = linearize(indices, whole);
  }
  Value seed = emitter.emit(op.getSeed(), LinearIndex()),
        step = emitter.emit(op.getStep(), LinearIndex()),
        microbatch = emitter.emit(op.getMicrobatch(), LinearIndex());
  Value offset = op.getOffset() ? emitter.emit(op.getOffset(), LinearIndex()) : Value();
  if (!seed || !step || !microbatch || (op.getOffset() && !offset))
    return nullptr;
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
  Value id = words.constant(static_cast<uint32_t>(op.getId()));
  return words.philox({low, words.sum(high, place), words.split(step).first, id}, key0, key1);
}

Value UniformOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  Location loc = getLoc();
  RandomWords words{b, loc};
  Value word = drawWord(*this, words, emitter, index);
  if (!word)
    return nullptr;
  // 24 bits, which f32 represents. The largest is below 2^31: signed conversion is the faster one.
  Value bits = arith::ShRUIOp::create(b, loc, word, constantLike(b, loc, word.getType(), 8));
  Type element = cast<RankedTensorType>(getType()).getElementType();
  if (auto vector = dyn_cast<VectorType>(bits.getType()))
    element = vector.clone(element);
  Value number = arith::SIToFPOp::create(b, loc, element, bits);
  return arith::MulFOp::create(b, loc, number, constantLike(b, loc, element, 0x1p-24));
}

Value DropoutOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  Location loc = getLoc();
  RandomWords words{b, loc};
  Value input = emitter.emit(getInput(), index);
  Value word = input ? drawWord(*this, words, emitter, index) : Value();
  if (!word)
    return nullptr;
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
