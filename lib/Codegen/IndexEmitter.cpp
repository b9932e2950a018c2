//===- IndexEmitter.cpp - Emits computations with linear indices ----------===//
#include "lib/Codegen/IndexEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace shale;

LinearIndex IndexEmitter::addDim(int64_t size, Value value, DimOrigin origin, unsigned position,
                                 Value guard) {
  dims.push_back({size, value, nest.depth(), origin, position, {}});
  if (guard)
    dims.back().guards.push_back(guard);
  // A dimension of size 1 is 0 wherever its guard holds. Without its term equal indices compare
  // equal.
  return size == 1 && !guard ? LinearIndex() : LinearIndex::dim(dims.size() - 1);
}

unsigned IndexEmitter::depthOf(const LinearIndex &index) const {
  unsigned depth = 0;
  for (auto [id, coefficient] : index.terms)
    depth = std::max(depth, dims[id].depth);
  return depth;
}

void IndexEmitter::collectGuards(const LinearIndex &index, SmallVectorImpl<Value> &guards) const {
  for (auto [id, coefficient] : index.terms)
    for (Value guard : dims[id].guards)
      if (!llvm::is_contained(guards, guard))
        guards.push_back(guard);
}

std::pair<int64_t, int64_t> IndexEmitter::rangeOf(const LinearIndex &index) const {
  int64_t low = index.constant, high = index.constant;
  for (auto [id, coefficient] : index.terms)
    (coefficient < 0 ? low : high) += coefficient * (dims[id].size - 1);
  return {low, high};
}

LinearIndex IndexEmitter::simplify(LinearIndex index) const {
  for (const Division &division : llvm::reverse(divided)) {
    int64_t factor = index.coefficient(division.remainder);
    if (factor == 0 || index.coefficient(division.quotient) != factor * division.divisor)
      continue;
    llvm::erase_if(index.terms, [&](auto term) {
      return term.first == division.quotient || term.first == division.remainder;
    });
    index = index.plus(division.divided.times(factor));
  }
  return index;
}

Value IndexEmitter::materialize(const LinearIndex &index) {
  Value sum;
  for (auto [id, coefficient] : index.terms) {
    Value term = dims[id].value;
    if (coefficient != 1)
      term = arith::MulIOp::create(b, loc, term, nest.constantIndex(coefficient));
    sum = sum ? Value(arith::AddIOp::create(b, loc, sum, term)) : term;
  }
  if (!sum)
    return nest.constantIndex(index.constant);
  if (index.constant != 0)
    sum = arith::AddIOp::create(b, loc, sum, nest.constantIndex(index.constant));
  return sum;
}

/// Makes `step` its greatest common divisor with the coefficients of an index, which is not
/// constant if `step` is 0. Returns the index divided by it, and sets `rest` to the remainder, a
/// constant in [0, step).
static LinearIndex divideByCommonStep(const LinearIndex &index, int64_t &step, int64_t &rest) {
  for (auto [id, coefficient] : index.terms)
    step = std::gcd(step, coefficient);
  rest = llvm::mod(index.constant, step);
  LinearIndex reduced = index.plus(-rest);
  reduced.constant /= step;
  for (auto &[id, coefficient] : reduced.terms)
    coefficient /= step;
  return reduced;
}

/// Finds the largest divisor of `number` that is a coefficient of the index, such that the terms of
/// other coefficients stay below it: parts of blocks of that size, as halves of the heads of a row
/// are. Returns the number of the block, and sets `size` and the place in it; null if there are no
/// such terms.
std::optional<LinearIndex> IndexEmitter::findBlock(const LinearIndex &index, int64_t number,
                                                   int64_t &size, LinearIndex &place) const {
  size = 0;
  for (auto [id, coefficient] : index.terms) {
    if (coefficient <= size || number % coefficient != 0)
      continue;
    LinearIndex rest{llvm::mod(index.constant, coefficient), {}};
    for (auto term : index.terms)
      if (term.second % coefficient != 0)
        rest.terms.push_back(term);
    auto [low, high] = rangeOf(rest);
    if (!rest.terms.empty() && low >= 0 && high < coefficient) {
      size = coefficient;
      place = rest;
    }
  }
  if (size == 0)
    return std::nullopt;
  LinearIndex block = index.plus(place.times(-1));
  block.constant /= size;
  for (auto &[id, coefficient] : block.terms)
    coefficient /= size;
  return block;
}

std::pair<LinearIndex, LinearIndex> IndexEmitter::divide(const LinearIndex &index,
                                                         int64_t divisor) {
  // All places of a block share one division.
  int64_t size = 0;
  LinearIndex place;
  if (std::optional<LinearIndex> block = findBlock(index, divisor, size, place)) {
    auto [whole, left] = emitDivision(*block, divisor / size);
    return {whole, left.times(size).plus(place)};
  }
  // All terms and the divisor are multiples of `step`, so neighbours within a step share one
  // division.
  int64_t step = divisor, rest = 0;
  LinearIndex reduced = divideByCommonStep(index, step, rest);
  auto [whole, left] = emitDivision(reduced, divisor / step);
  return {whole, left.times(step).plus(rest)};
}

std::pair<LinearIndex, LinearIndex> IndexEmitter::emitDivision(const LinearIndex &index,
                                                               int64_t divisor) {
  unsigned depth = depthOf(index);
  auto key = std::make_pair(index, divisor);
  if (auto found = nest.scope(depth).divisions.find(key);
      found != nest.scope(depth).divisions.end())
    return found->second;
  OpBuilder::InsertionGuard guard(b);
  nest.setInsertion(depth);
  Value number = materialize(index), by = nest.constantIndex(divisor);
  Value whole = arith::FloorDivSIOp::create(b, loc, number, by);
  Value rest = arith::SubIOp::create(b, loc, number, arith::MulIOp::create(b, loc, whole, by));
  auto newDim = [&](Value value, int64_t size) {
    dims.push_back({size, value, depth, DimOrigin::Other, 0, {}});
    collectGuards(index, dims.back().guards);
    return LinearIndex::dim(dims.size() - 1);
  };
  LinearIndex quotient = newDim(whole, rangeOf(index).second / divisor + 1);
  LinearIndex remainder = newDim(rest, divisor);
  divided.push_back({unsigned(dims.size()) - 2, unsigned(dims.size()) - 1, divisor, index});
  return nest.scope(depth).divisions[key] = {quotient, remainder};
}

std::optional<std::pair<Value, LinearIndex>> IndexEmitter::test(const LinearIndex &index,
                                                                int64_t lo, int64_t hi) {
  // All places of a block share one test.
  int64_t size = 0;
  LinearIndex place;
  if (std::optional<LinearIndex> block = findBlock(index, std::gcd(lo, hi), size, place)) {
    auto [condition, relative] = emitTest(*block, lo / size, hi / size);
    // Elsewhere nothing is read where the target can leave it out: blocks are long.
    for (auto [id, coefficient] : relative.terms)
      if (dims[id].guards.empty())
        dims[id].guards.push_back(condition);
    return std::pair(condition, relative.times(size).plus(place));
  }
  // The index is a multiple of `step` and a rest, so neighbours within a step share one test or,
  // where a bound is between them, two.
  int64_t step = 0, rest = 0;
  LinearIndex reduced = divideByCommonStep(index, step, rest);
  int64_t first = llvm::divideCeilSigned(lo - rest, step),
          end = llvm::divideCeilSigned(hi - rest, step);
  if (first >= end)
    return std::nullopt;
  auto [condition, relative] = emitTest(reduced, first, end);
  return std::pair(condition, relative.times(step).plus(first * step + rest - lo));
}

std::pair<Value, LinearIndex> IndexEmitter::emitTest(const LinearIndex &index, int64_t lo,
                                                     int64_t hi) {
  // Tests are made where the op is emitted, which may be deeper than its index.
  unsigned depth = nest.insertionDepth();
  auto [found, isNew] = nest.scope(depth).tests.try_emplace({index, lo, hi});
  auto &[condition, relative] = found->second;
  if (!isNew)
    return found->second;
  Value at = materialize(index.plus(-lo)), zero = nest.constantIndex(0);
  Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, at, zero);
  Value below =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, at, nest.constantIndex(hi - lo));
  condition = arith::AndIOp::create(b, loc, above, below);
  relative = addRuntimeDim(arith::SelectOp::create(b, loc, condition, at, zero), hi - lo, depth);
  return found->second;
}

LinearIndex IndexEmitter::addRuntimeDim(Value value, int64_t size, unsigned depth) {
  dims.push_back({size, value, depth, DimOrigin::Other, 0, {}});
  return LinearIndex::dim(dims.size() - 1);
}

std::pair<Value, LinearIndex> IndexEmitter::runtimeDim(Value value, int64_t size) {
  // The value belongs to the scope of the current insertion point.
  unsigned depth = nest.insertionDepth();
  auto [found, isNew] =
      nest.scope(depth).runtimeDims.try_emplace({value.getAsOpaquePointer(), size});
  if (isNew) {
    Value zero = constantLike(b, loc, value.getType(), 0),
          limit = constantLike(b, loc, value.getType(), double(size));
    Value low = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, value, zero);
    Value high = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, value, limit);
    Value fits = arith::AndIOp::create(b, loc, low, high);
    Value safe = arith::SelectOp::create(b, loc, fits, value, zero);
    safe = arith::IndexCastOp::create(b, loc, b.getIndexType(), safe);
    found->second = {fits, addRuntimeDim(safe, size, depth)};
  }
  return found->second;
}
