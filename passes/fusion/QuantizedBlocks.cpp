//===- QuantizedBlocks.cpp - Kernels of blocks of 8-bit integers ----------===//
#include "passes/fusion/QuantizedBlocks.h"

using namespace mlir;
using namespace shale;

namespace {
/// Elements in a word, and the integers of a byte.
constexpr int64_t kParts = 4, kBytes = 256;

/// The size of the blocks of an encoding.
struct Blocks {
  /// Elements, words, and the words that have elements: one has the scale.
  int64_t elements, words, columns;
  explicit Blocks(dist::Encoding encoding)
      : elements(dist::blockOf(encoding).elements), words(dist::blockOf(encoding).words),
        columns(words - 1) {}
};
} // namespace

/// Returns the value of byte k of a word whose other bytes are 0.
static double placeOf(int64_t k) { return double(int64_t(1) << 8 * k); }

nn::ClusterOp shale::buildKernel(OpBuilder &builder, Operation *op, ValueRange inputs, Type result,
                                 llvm::function_ref<Value(nn::Composer &, ValueRange)> body,
                                 int64_t alias) {
  auto aliases = alias < 0 ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr({alias});
  auto cluster = nn::ClusterOp::create(builder, op->getLoc(), result, inputs, aliases);
  OpBuilder::InsertionGuard guard(builder);
  Block *block = builder.createBlock(&cluster.getBody());
  nn::Composer c(builder, cluster);
  for (Value input : inputs)
    block->addArgument(input.getType(), input.getLoc());
  Value made = body(c, block->getArguments());
  nn::YieldOp::create(builder, op->getLoc(), made);
  nn::copyPhaseAndScope(op, cluster);
  return cluster;
}

Value shale::quantizeBlocks(nn::Composer &c, Value floats, dist::Encoding encoding) {
  const Blocks size(encoding);
  OpBuilder builder(floats.getContext());
  Type single = builder.getF32Type(), word = builder.getI32Type();
  int64_t blocks = nn::elements(floats) / size.elements;
  Value all = c.reshape(c.cast(floats, single), {blocks, kParts, size.columns});
  SmallVector<Value> parts;
  Value largest;
  for (int64_t k = 0; k < kParts; ++k) {
    parts.push_back(c.reshape(c.slice(all, 1, k, k + 1), {blocks, size.columns}));
    Value magnitude = c.abs(parts.back());
    largest = largest ? c.max(largest, magnitude) : magnitude;
  }
  // The column of the scale takes part, so that reduction and result have the same columns.
  Value none = c.splat(RankedTensorType::get({blocks, 1}, single), 0);
  largest = c.reduceRows(nn::ReduceKind::Max, c.concat({largest, none}, {blocks, size.words}, 1));
  Value scale = c.div(largest, c.splat(largest, kBytes / 2 - 1));
  Value zero = c.splat(scale, 0);
  Value small = c.compare(nn::Predicate::LT, scale, c.splat(scale, 0x1p-126));
  Value factor = c.select(small, zero, c.div(c.splat(scale, 1), scale));
  scale = c.select(small, zero, scale);
  Value words;
  for (int64_t k = 0; k < kParts; ++k) {
    Value scaled = c.mul(parts[k], c.alongRows(factor, parts[k]));
    Value rounded = c.floor(c.add(scaled, c.splat(scaled, 0.5)));
    Value bytes = c.cast(rounded, word);
    bytes = c.both(bytes, c.splat(bytes, kBytes - 1));
    bytes = c.mul(bytes, c.splat(bytes, placeOf(k)));
    words = words ? c.add(words, bytes) : bytes;
  }
  Value bits = c.reshape(c.bitcast(scale, word), {blocks, 1});
  return c.reshape(c.concat({words, bits}, {blocks, size.words}, 1), {blocks * size.words});
}

Value shale::dequantizeBlocks(nn::Composer &c, Value flat, Type element, dist::Encoding encoding) {
  const Blocks size(encoding);
  OpBuilder builder(flat.getContext());
  Type single = builder.getF32Type();
  int64_t blocks = nn::elements(flat) / size.words;
  Value all = c.reshape(flat, {blocks, size.words});
  Value words = c.slice(all, 1, 0, size.columns);
  Value scale = c.bitcast(c.reshape(c.slice(all, 1, size.columns, size.words), {blocks}), single);
  SmallVector<Value> parts;
  for (int64_t k = 0; k < kParts; ++k) {
    // The byte becomes the highest one, whose sign is that of the word.
    Value highest = c.mul(words, c.splat(words, placeOf(kParts - 1 - k)));
    highest = c.both(highest, c.splat(highest, -placeOf(kParts - 1)));
    Value number = c.cast(highest, single);
    number = c.mul(number, c.splat(number, 1 / placeOf(kParts - 1)));
    parts.push_back(c.reshape(number, {blocks, 1, size.columns}));
  }
  Value numbers =
      c.reshape(c.concat(parts, {blocks, kParts, size.columns}, 1), {blocks, size.elements});
  Value floats = c.mul(numbers, c.alongRows(scale, numbers));
  return c.reshape(c.cast(floats, element), {blocks * size.elements});
}
