//===- BufferSpan.cpp - Bytes of a buffer of rt ---------------------------===//
#include "lib/Analysis/BufferSpan.h"

using namespace mlir;
using namespace shale;

static bool inSameBlock(rt::BufferOp a, rt::BufferOp b) {
  return a && b && a.getSpace() == b.getSpace() && a.getMemory() == b.getMemory() &&
         a.getIndex() == b.getIndex() &&
         (a.getSpace() == rt::Space::State || a.getSymbol() == b.getSymbol());
}

bool BufferSpan::overlaps(const BufferSpan &other) const {
  return inSameBlock(block, other.block) && begin < other.begin + other.bytes &&
         other.begin < begin + bytes;
}

bool BufferSpan::operator==(const BufferSpan &other) const {
  return inSameBlock(block, other.block) && begin == other.begin && bytes == other.bytes &&
         slices == other.slices;
}

BufferSpan shale::spanOf(Value buffer) {
  int64_t bytes = rt::bufferBytes(cast<MemRefType>(buffer.getType()));
  if (auto view = buffer.getDefiningOp<rt::ViewOp>()) {
    BufferSpan span = spanOf(view.getSource());
    if (span.slices.empty()) {
      span.begin += view.getOffset();
      span.bytes = bytes;
    } else {
      std::get<1>(span.slices.back()) = bytes;
      std::get<2>(span.slices.back()) += view.getOffset();
    }
    return span;
  }
  if (auto shard = buffer.getDefiningOp<rt::ShardOp>()) {
    BufferSpan span = spanOf(shard.getSource());
    span.slices.push_back({shard.getAxis(), bytes, 0});
    return span;
  }
  auto op = buffer.getDefiningOp<rt::BufferOp>();
  bool placed = op && (op.getSpace() == rt::Space::State || op.getSpace() == rt::Space::Arena);
  return {op, placed ? int64_t(op.getOffset()) : 0, bytes, {}};
}
