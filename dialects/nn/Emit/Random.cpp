//===- Random.cpp - Elements of ops that draw random numbers ---------------===//
#include "dialects/nn/NN.h"
#include "dialects/nn/Philox.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

namespace {

/// Words of 32 bits, scalars or vectors.
struct Words {
  OpBuilder &b;
  Location loc;

  Value constant(uint32_t value) {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(b.getI32Type(), APInt(32, value)));
  }
  void match(Value &x, Value &y) {
    Value both[] = {x, y};
    matchLanes(b, loc, both);
    x = both[0], y = both[1];
  }
  Value exclusive(Value x, Value y) {
    match(x, y);
    return arith::XOrIOp::create(b, loc, x, y);
  }
  Value sum(Value x, Value y) {
    match(x, y);
    return arith::AddIOp::create(b, loc, x, y);
  }
  /// Low and high word of a product.
  std::pair<Value, Value> product(Value x, Value y) {
    match(x, y);
    auto op = arith::MulUIExtendedOp::create(b, loc, x, y);
    return {op.getLow(), op.getHigh()};
  }
  /// Low and high word of an i64.
  std::pair<Value, Value> split(Value wide) {
    Type half = b.getI32Type();
    if (auto type = dyn_cast<VectorType>(wide.getType()))
      half = type.clone(half);
    Value high = arith::ShRUIOp::create(b, loc, wide, constantLike(b, loc, wide.getType(), 32));
    return {arith::TruncIOp::create(b, loc, half, wide), arith::TruncIOp::create(b, loc, half, high)};
  }
  /// Word 0 of philox() in dialects/nn/Philox.h.
  Value philox(std::array<Value, 4> x, Value key0, Value key1) {
    Value m0 = constant(kPhiloxMultipliers[0]), m1 = constant(kPhiloxMultipliers[1]);
    Value w0 = constant(kPhiloxWeyl[0]), w1 = constant(kPhiloxWeyl[1]);
    for (int round = 0; round < kPhiloxRounds; ++round) {
      auto [low0, high0] = product(x[0], m0);
      auto [low1, high1] = product(x[2], m1);
      x = {exclusive(exclusive(high1, x[1]), key0), low1, exclusive(exclusive(high0, x[3]), key1), low0};
      key0 = sum(key0, w0);
      key1 = sum(key1, w1);
    }
    return x[0];
  }
};

} // namespace

Access DropoutOp::getAccess(unsigned number) { return number == 0 ? Access::Same : Access::Any; }

Value DropoutOp::emitAt(ElementEmitter &emitter, const LinearIndex &index) {
  OpBuilder &b = emitter.builder();
  Location loc = getLoc();
  auto type = cast<RankedTensorType>(getType());
  ArrayRef<int64_t> whole = getGlobalShape() ? *getGlobalShape() : type.getShape();
  // Where only the first dimension is cut, a slice counts as the whole does.
  LinearIndex element = index;
  if (type.getRank() > 0 && whole.drop_front() != type.getShape().drop_front()) {
    SmallVector<LinearIndex> indices;
    if (!emitter.delinearize(index, type.getShape(), indices))
      return nullptr;
    element = linearize(indices, whole);
  }
  Value input = emitter.emit(getInput(), index);
  Value seed = emitter.emit(getSeed(), LinearIndex()), step = emitter.emit(getStep(), LinearIndex()),
        microbatch = emitter.emit(getMicrobatch(), LinearIndex());
  Value offset = getOffset() ? emitter.emit(getOffset(), LinearIndex()) : Value();
  if (!input || !seed || !step || !microbatch || (getOffset() && !offset))
    return nullptr;

  Words words{b, loc};
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
  Value scaled = arith::MulFOp::create(b, loc, input, constantLike(b, loc, input.getType(), 1 / (1 - ratio)));
  Value zero = constantLike(b, loc, scaled.getType(), 0);
  // One of the two may run along the lanes where the other does not.
  if (isa<VectorType>(kept.getType()) != isa<VectorType>(scaled.getType())) {
    scaled = emitter.widen(index, scaled);
    zero = emitter.widen(index, zero);
    kept = emitter.widen(index, kept);
  }
  return arith::SelectOp::create(b, loc, kept, scaled, zero);
}
