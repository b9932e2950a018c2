//===- Rounding.cpp - Stochastic rounding of new parameters ---------------===//
#include "dialects/nn/Optimizers/Rounding.h"
#include "dialects/nn/Emit/Random.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

std::array<Value, 4> shale::nn::emitRoundingWords(OpBuilder &b, Location loc, Value number,
                                                  Value seed, Value step) {
  RandomWords words{b, loc};
  Value shift = constantLike(b, loc, number.getType(), llvm::Log2_64(kRoundedTogether));
  auto [low, high] = words.split(arith::ShRUIOp::create(b, loc, number, shift));
  high = words.sum(high, words.constant(kRoundingMicrobatch << 16));
  auto [place, piece] = words.split(step);
  auto [key0, key1] = words.split(seed);
  return words.philoxWords({low, high, place, piece}, key0, key1);
}

Value shale::nn::emitRoundingWord(OpBuilder &b, Location loc, Value number, Value seed,
                                  Value step) {
  std::array<Value, 4> words = emitRoundingWords(b, loc, number, seed, step);
  Value last = arith::AndIOp::create(b, loc, number,
                                     constantLike(b, loc, number.getType(), kRoundedTogether - 1));
  Value word = words[0];
  for (int i = 1; i < kRoundedTogether; ++i) {
    Value here = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, last,
                                       constantLike(b, loc, last.getType(), i));
    word = arith::SelectOp::create(b, loc, here, words[i], word);
  }
  return word;
}

Value shale::nn::emitRounded(OpBuilder &b, Location loc, Value value, Value word) {
  Type integer = likeShape(value, b.getI32Type());
  auto number = [&](uint32_t bits) -> Value {
    return constantLike(b, loc, integer, static_cast<int32_t>(bits));
  };
  Value bits = arith::BitcastOp::create(b, loc, integer, value);
  Value raised =
      arith::AddIOp::create(b, loc, bits, arith::ShRUIOp::create(b, loc, word, number(16)));
  raised = arith::AndIOp::create(b, loc, raised, number(0xFFFF0000));
  // NaN, infinity and what is above the largest finite bf16 are left to the rounding to nearest.
  Value magnitude = arith::AndIOp::create(b, loc, bits, number(0x7FFFFFFF));
  Value large =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, magnitude, number(0x7F7F0000));
  Value rounded = arith::BitcastOp::create(b, loc, value.getType(), raised);
  return arith::SelectOp::create(b, loc, large, value, rounded);
}
