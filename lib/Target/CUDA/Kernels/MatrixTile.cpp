//===- MatrixTile.cpp - A block's part of a matmul -----------------------===//
//
// A step stores some terms of both factors into shared memory, and multiplies them there while the
// terms of the next step are loaded. Two buffers in turn need one barrier per step: a thread that
// stores into a buffer has passed the barrier that all others reach after they have read it.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CUDA/Kernels/MatrixTile.h"
#include "dialects/interfaces/ElementEmitter.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

int64_t cuda::accessWidth(int64_t size, int64_t most) {
  while (size % most != 0)
    most /= 2;
  return most;
}

TileSize MatrixTile::sizeOf(Type element, int64_t rows, int64_t columns) {
  // A large tile loads each element half as often as a small one. It pays if it is mostly used.
  constexpr int64_t small = 64, large = 128, leastRows = 96;
  int64_t side = rows >= leastRows && columns > small ? large : small;
  int64_t threads = is16BitFloat(element) ? 128 : side * side / 64;
  return {side, side, threads};
}

std::unique_ptr<MatrixTile> MatrixTile::create(Threads &t, Type element, TileSize size) {
  return is16BitFloat(element) ? createTensorTile(t, element, size) : createPlainTile(t, size);
}

void MatrixTile::emit(const TileFactor &lhs, const TileFactor &rhs, const Terms &terms,
                      const Output &output) {
  int64_t left = stagedElements(lhs, size.rows), right = stagedElements(rhs, size.columns);
  constexpr int64_t alignment = 16;
  shared = t.shared(2 * (left + right), stagedType(), alignment);
  prepare(lhs, rhs);
  auto loadBoth = [&](Value term) {
    Threads::Values loaded = load(lhs, size.rows, terms, term);
    llvm::append_range(loaded, load(rhs, size.columns, terms, term));
    return loaded;
  };
  Threads::Values initial = loadBoth(terms.begin);
  unsigned loaded = initial.size();
  initial.append(sumsPerThread(), constantLike(t.b, t.loc, t.b.getF32Type(), 0));
  initial.push_back(t.index(0)); // the place of the buffer
  auto step = [&](Value term, ValueRange state) {
    ValueRange all = state.take_front(loaded), sums = state.drop_front(loaded).drop_back();
    Value place = state.back(), second = plus(place, left);
    // load() returns values in proportion to the rows and columns of the tile.
    unsigned ofLhs = loaded * size.rows / (size.rows + size.columns);
    stage(lhs, size.rows, all.take_front(ofLhs), place);
    stage(rhs, size.columns, all.drop_front(ofLhs), second);
    t.barrier();
    Threads::Values next = loadBoth(plus(term, depth));
    llvm::append_range(next, multiply(lhs, place, rhs, second, sums));
    next.push_back(t.sub(t.index(left + right), place));
    return next;
  };
  Threads::Values result = t.fold(terms.begin, terms.end, t.index(depth), initial, step);
  store(output, ValueRange(result).drop_front(loaded).drop_back());
}

Value MatrixTile::div(Value x, int64_t y) {
  return arith::DivUIOp::create(t.b, t.loc, x, t.index(y));
}
Value MatrixTile::rem(Value x, int64_t y) {
  return arith::RemUIOp::create(t.b, t.loc, x, t.index(y));
}
Value MatrixTile::plus(Value x, int64_t y) { return y == 0 ? x : t.add(x, t.index(y)); }
Value MatrixTile::times(Value x, int64_t y) { return t.mul(x, t.index(y)); }
Value MatrixTile::xorOf(Value x, Value y) { return arith::XOrIOp::create(t.b, t.loc, x, y); }

Value MatrixTile::loadNeighbours(const TileFactor &factor, const Terms &terms, Value line,
                                 Value term, int64_t width) {
  bool exact = terms.whole && terms.most % depth == 0;
  Value exists = exact ? Value() : t.less(term, terms.end);
  // Exact terms: only a step after the last one, whose values are not used, has others.
  Value safeTerm = exact ? t.min(term, t.index(terms.most - (factor.keepsLines ? width : 1)))
                         : t.select(exists, term, t.index(0));
  Value safeLine = t.min(line, t.index(factor.lines - (factor.keepsLines ? 1 : width)));
  Value row = factor.keepsLines ? safeLine : safeTerm;
  Value column = factor.keepsLines ? safeTerm : safeLine;
  Value at = t.add(factor.start, t.add(times(row, factor.pitch), column));
  auto type = VectorType::get({width}, cast<MemRefType>(factor.memref.getType()).getElementType());
  Value loaded = vector::LoadOp::create(t.b, t.loc, type, factor.memref, at, /*nontemporal=*/false,
                                        llvm::MaybeAlign(valueBytes(type)));
  if (!exists)
    return loaded;
  Value zero = arith::ConstantOp::create(t.b, t.loc, type, t.b.getZeroAttr(type));
  return t.select(exists, loaded, zero);
}

Value MatrixTile::loadShared(Value at, int64_t width) {
  if (width == 1)
    return t.load(shared, at);
  auto type = VectorType::get({width}, stagedType());
  return vector::LoadOp::create(t.b, t.loc, type, shared, at, /*nontemporal=*/false,
                                llvm::MaybeAlign(valueBytes(type)));
}

void MatrixTile::storeShared(Value value, Value at) {
  vector::StoreOp::create(t.b, t.loc, value, shared, at, /*nontemporal=*/false,
                          llvm::MaybeAlign(valueBytes(value.getType())));
}

void MatrixTile::storeColumns(const Output &output, Value row, Value column, ValueRange sums) {
  int64_t width = accessWidth(output.columns, sums.size());
  for (int64_t i = 0; i < int64_t(sums.size()); i += width) {
    Value first = t.add(output.firstColumn, plus(column, i));
    auto storeOne = [&] {
      Value value = vector::FromElementsOp::create(
          t.b, t.loc, VectorType::get({width}, t.b.getF32Type()), sums.slice(i, width));
      if (is16BitFloat(output.element))
        value = arith::BitcastOp::create(t.b, t.loc, VectorType::get({width}, t.b.getI16Type()),
                                         narrowTo16Bits(t.b, t.loc, value, output.element));
      Value at = t.add(output.start, t.add(times(row, output.columns), first));
      vector::StoreOp::create(t.b, t.loc, value, output.memref, at, /*nontemporal=*/false,
                              llvm::MaybeAlign(valueBytes(value.getType())));
    };
    if (output.columns % size.columns == 0)
      storeOne();
    else
      t.when(t.less(first, t.index(output.columns)), storeOne);
  }
}
