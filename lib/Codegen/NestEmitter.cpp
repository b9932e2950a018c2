//===- NestEmitter.cpp - Emits elements into nested loops -----------------===//
#include "lib/Codegen/NestEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace shale;

SmallVector<Type> shale::memoryTypes(Region &body) {
  SmallVector<Type> types;
  auto add = [&](Value value) {
    auto tensor = cast<RankedTensorType>(value.getType());
    types.push_back(
        MemRefType::get({tensor.getNumElements()}, memoryType(tensor.getElementType())));
  };
  llvm::for_each(body.getArguments(), add);
  llvm::for_each(body.front().getTerminator()->getOperands(), add);
  return types;
}

// ---- scopes and loops

void NestEmitter::pushScope(Block *block, Operation *before) {
  scopes.push_back(std::make_unique<Scope>(Scope{block, before, {}, {}, {}, {}}));
  setInsertion(depth());
}

void NestEmitter::popScope() { scopes.pop_back(); }

void NestEmitter::setInsertion(unsigned depth) {
  Scope &scope = *scopes[depth];
  if (scope.before)
    b.setInsertionPoint(scope.before);
  else
    b.setInsertionPointToEnd(scope.block);
}

LinearIndex NestEmitter::addDim(int64_t size, Value value, DimOrigin origin, unsigned position,
                                Value guard) {
  dims.push_back({size, value, depth(), origin, position, {}});
  if (guard)
    dims.back().guards.push_back(guard);
  // A dimension of size 1 is 0 wherever its guard holds. Without its term equal indices compare
  // equal.
  return size == 1 && !guard ? LinearIndex() : LinearIndex::dim(dims.size() - 1);
}

scf::ForOp NestEmitter::openLoop(Value lower, Value upper, int64_t step, ValueRange values) {
  setInsertion(depth());
  Value stride = constantIndex(step);
  auto loop = scf::ForOp::create(b, loc, lower, upper, stride, values);
  // Values of this scope that the body uses are emitted before the loop.
  scope().before = loop;
  Block *body = loop.getBody();
  pushScope(body, body->mightHaveTerminator() ? body->getTerminator() : nullptr);
  return loop;
}

ValueRange NestEmitter::closeLoop(scf::ForOp loop, ValueRange values) {
  setInsertion(depth());
  if (!scope().before)
    scf::YieldOp::create(b, loc, values);
  popScope();
  Operation *next = loop->getNextNode();
  scope().before = next;
  setInsertion(depth());
  return loop.getResults();
}

Value NestEmitter::constantIndex(int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}

unsigned NestEmitter::depthOf(const LinearIndex &index) const {
  unsigned depth = 0;
  for (auto [id, coefficient] : index.terms)
    depth = std::max(depth, dims[id].depth);
  return depth;
}

unsigned NestEmitter::insertionDepth() const {
  for (unsigned i = scopes.size(); i-- > 0;)
    if (scopes[i]->block == b.getInsertionBlock())
      return i;
  return depth();
}

void NestEmitter::collectGuards(const LinearIndex &index, SmallVectorImpl<Value> &guards) const {
  for (auto [id, coefficient] : index.terms)
    for (Value guard : dims[id].guards)
      if (!llvm::is_contained(guards, guard))
        guards.push_back(guard);
}

std::pair<int64_t, int64_t> NestEmitter::rangeOf(const LinearIndex &index) const {
  int64_t low = index.constant, high = index.constant;
  for (auto [id, coefficient] : index.terms)
    (coefficient < 0 ? low : high) += coefficient * (dims[id].size - 1);
  return {low, high};
}

Value NestEmitter::materialize(const LinearIndex &index) {
  Value sum;
  for (auto [id, coefficient] : index.terms) {
    Value term = dims[id].value;
    if (coefficient != 1)
      term = arith::MulIOp::create(b, loc, term, constantIndex(coefficient));
    sum = sum ? Value(arith::AddIOp::create(b, loc, sum, term)) : term;
  }
  if (!sum)
    return constantIndex(index.constant);
  if (index.constant != 0)
    sum = arith::AddIOp::create(b, loc, sum, constantIndex(index.constant));
  return sum;
}

// ---- interface of the ops

Value NestEmitter::emitOp(Operation *op, const LinearIndex &index) {
  if (special && op)
    if (std::optional<Value> element = special(op, index))
      return *element;
  if (auto elementwise = dyn_cast_or_null<ElementwiseOpInterface>(op)) {
    SmallVector<Value> args;
    for (Value operand : op->getOperands()) {
      args.push_back(emit(operand, index));
      if (!args.back())
        return nullptr;
    }
    matchLanes(b, loc, args);
    return elementwise.emitElement(b, loc, args);
  }
  if (auto indexed = dyn_cast_or_null<IndexedOpInterface>(op))
    return indexed.emitAt(*this, index);
  if (op)
    op->emitOpError() << "cannot be part of a kernel";
  ask({Refinement::Unsupported});
  return nullptr;
}

LinearIndex NestEmitter::simplify(LinearIndex index) const {
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

Value NestEmitter::emit(Value value, const LinearIndex &given) {
  if (request)
    return nullptr;
  LinearIndex index = simplify(given);
  unsigned depth = depthOf(index);
  auto key = std::make_pair(value.getAsOpaquePointer(), index);
  auto found = scopes[depth]->memo.find(key);
  if (found != scopes[depth]->memo.end())
    return found->second;
  OpBuilder::InsertionGuard guard(b);
  setInsertion(depth);
  Value element;
  if (Value memref = buffers.lookup(value))
    element = load(memref, cast<RankedTensorType>(value.getType()).getElementType(), index);
  else
    element = emitOp(value.getDefiningOp(), index);
  if (element)
    scopes[depth]->memo[key] = element;
  return element;
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

using Bounds = std::pair<int64_t, int64_t>;

/// Finds the largest divisor of `number` that is a coefficient of the index, such that the terms of
/// other coefficients stay below it: parts of blocks of that size, as halves of the heads of a row
/// are. Returns the number of the block, and sets `size` and the place in it; null if there are no
/// such terms.
static std::optional<LinearIndex> findBlock(const LinearIndex &index, int64_t number,
                                            llvm::function_ref<Bounds(const LinearIndex &)> rangeOf,
                                            int64_t &size, LinearIndex &place) {
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

bool NestEmitter::divideBy(const LinearIndex &index, int64_t divisor, LinearIndex &quotient,
                           LinearIndex &remainder) {
  quotient.constant = llvm::divideFloorSigned(index.constant, divisor);
  remainder.constant = index.constant - quotient.constant * divisor;
  for (auto [id, coefficient] : index.terms) {
    if (coefficient % divisor == 0)
      quotient.terms.push_back({id, coefficient / divisor});
    else
      remainder.terms.push_back({id, coefficient});
  }
  auto [low, high] = rangeOf(remainder);
  if (low >= 0 && high < divisor)
    return true;
  for (auto [id, coefficient] : remainder.terms) {
    const Dim &dim = dims[id];
    if (dim.origin == DimOrigin::Other || coefficient <= 0 || divisor % coefficient != 0)
      continue;
    int64_t factor = divisor / coefficient;
    if (dim.size > factor && dim.size % factor == 0) {
      ask({Refinement::Split, dim.origin, dim.position, factor});
      return false;
    }
  }
  if (isVector(remainder)) {
    ask({Refinement::Scalar});
    return false;
  }
  // No split removes the division: emit it. All places of a block share one division.
  auto range = [&](const LinearIndex &each) { return rangeOf(each); };
  int64_t size = 0;
  LinearIndex place;
  if (std::optional<LinearIndex> block = findBlock(remainder, divisor, range, size, place)) {
    auto [whole, left] = emitDivision(*block, divisor / size);
    quotient = quotient.plus(whole);
    remainder = left.times(size).plus(place);
    return true;
  }
  // All terms and the divisor are multiples of `step`, so neighbours within a step share one
  // division.
  int64_t step = divisor, rest = 0;
  LinearIndex reduced = divideByCommonStep(remainder, step, rest);
  auto [whole, left] = emitDivision(reduced, divisor / step);
  quotient = quotient.plus(whole);
  remainder = left.times(step).plus(rest);
  return true;
}

std::pair<LinearIndex, LinearIndex> NestEmitter::emitDivision(const LinearIndex &index,
                                                              int64_t divisor) {
  unsigned depth = depthOf(index);
  auto key = std::make_pair(index, divisor);
  if (auto found = scopes[depth]->divisions.find(key); found != scopes[depth]->divisions.end())
    return found->second;
  OpBuilder::InsertionGuard guard(b);
  setInsertion(depth);
  Value number = materialize(index), by = constantIndex(divisor);
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
  return scopes[depth]->divisions[key] = {quotient, remainder};
}

ElementEmitter::Within NestEmitter::within(const LinearIndex &index, int64_t lo, int64_t hi,
                                           LinearIndex &relative, Value &condition) {
  relative = index.plus(-lo);
  auto [low, high] = rangeOf(index);
  if (low >= lo && high < hi)
    return Within::Always;
  if (high < lo || low >= hi)
    return Within::Never;
  for (int64_t bound : {lo, hi}) {
    if (bound <= low || bound > high)
      continue;
    for (auto [id, coefficient] : index.terms) {
      LinearIndex rest = index;
      llvm::erase_if(rest.terms, [&, id = id](auto term) { return term.first == id; });
      rest.constant -= bound;
      int64_t at = -llvm::divideFloorSigned(rest.constant, coefficient);
      rest.constant += at * coefficient;
      auto [restLow, restHigh] = rangeOf(rest);
      const Dim &dim = dims[id];
      bool breakable = dim.origin == DimOrigin::Column || dim.origin == DimOrigin::Flat;
      if (breakable && coefficient > 0 && restLow >= 0 && restHigh < coefficient && at > 0 &&
          at < dim.size) {
        ask({Refinement::Break, dim.origin, dim.position, at});
        return Within::Retry;
      }
    }
  }
  if (isVector(index)) {
    ask({Refinement::Scalar});
    return Within::Retry;
  }
  // All places of a block share one test.
  auto range = [&](const LinearIndex &each) { return rangeOf(each); };
  int64_t size = 0;
  LinearIndex place;
  if (std::optional<LinearIndex> block = findBlock(index, std::gcd(lo, hi), range, size, place)) {
    std::tie(condition, relative) = emitTest(*block, lo / size, hi / size);
    // Elsewhere nothing is read where the target can leave it out: blocks are long.
    for (auto [id, coefficient] : relative.terms)
      if (dims[id].guards.empty())
        dims[id].guards.push_back(condition);
    relative = relative.times(size).plus(place);
    return Within::Sometimes;
  }
  // The index is a multiple of `step` and a rest, so neighbours within a step share one test or,
  // where a bound is between them, two.
  int64_t step = 0, rest = 0;
  LinearIndex reduced = divideByCommonStep(index, step, rest);
  int64_t first = llvm::divideCeilSigned(lo - rest, step),
          end = llvm::divideCeilSigned(hi - rest, step);
  if (first >= end)
    return Within::Never;
  std::tie(condition, relative) = emitTest(reduced, first, end);
  relative = relative.times(step).plus(first * step + rest - lo);
  return Within::Sometimes;
}

std::pair<Value, LinearIndex> NestEmitter::emitTest(const LinearIndex &index, int64_t lo,
                                                    int64_t hi) {
  // Tests are made where the op is emitted, which may be deeper than its index.
  unsigned depth = insertionDepth();
  auto [found, isNew] = scopes[depth]->tests.try_emplace({index, lo, hi});
  auto &[condition, relative] = found->second;
  if (!isNew)
    return found->second;
  Value at = materialize(index.plus(-lo)), zero = constantIndex(0);
  Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, at, zero);
  Value below =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, at, constantIndex(hi - lo));
  condition = arith::AndIOp::create(b, loc, above, below);
  relative = addRuntimeDim(arith::SelectOp::create(b, loc, condition, at, zero), hi - lo, depth);
  return found->second;
}

LinearIndex NestEmitter::addRuntimeDim(Value value, int64_t size, unsigned depth) {
  dims.push_back({size, value, depth, DimOrigin::Other, 0, {}});
  return LinearIndex::dim(dims.size() - 1);
}

bool NestEmitter::runtimeDim(Value value, int64_t size, LinearIndex &index, Value &inside) {
  if (isa<VectorType>(value.getType())) {
    ask({Refinement::Scalar});
    return false;
  }
  // The value belongs to the scope of the current insertion point.
  unsigned depth = insertionDepth();
  auto [found, isNew] = scopes[depth]->runtimeDims.try_emplace({value.getAsOpaquePointer(), size});
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
  std::tie(inside, index) = found->second;
  return true;
}

Value NestEmitter::loop(const LinearIndex &at, int64_t size, Value initial,
                        llvm::function_ref<Value(const LinearIndex &, Value)> body) {
  // The loop does not depend on deeper scopes: remove them meanwhile.
  unsigned here = insertionDepth();
  std::vector<std::unique_ptr<Scope>> deeper;
  for (unsigned i = here + 1; i < scopes.size(); ++i)
    deeper.push_back(std::move(scopes[i]));
  scopes.resize(here + 1);

  Value result;
  {
    OpBuilder::InsertionGuard guard(b);
    Operation *before = scope().before;
    scf::ForOp op = openLoop(constantIndex(0), constantIndex(size), 1, initial);
    LinearIndex dim = addDim(size, op.getInductionVar(), DimOrigin::Other, 0);
    Value next = body(dim, op.getRegionIterArg(0));
    setInsertion(depth());
    scf::YieldOp::create(b, loc, next ? next : op.getRegionIterArg(0));
    popScope();
    scope().before = before;
    result = next ? op.getResult(0) : Value();
  }
  for (std::unique_ptr<Scope> &scope : deeper)
    scopes.push_back(std::move(scope));
  return result;
}

bool NestEmitter::emitOutputs(Operation *yield, int64_t count, ValueRange memrefs,
                              const LinearIndex &index, SmallVectorImpl<Output> &outputs) {
  for (auto [output, memref] : llvm::zip(yield->getOperands(), memrefs))
    if (cast<RankedTensorType>(output.getType()).getNumElements() == count) {
      Value element = emit(output, index);
      if (!element)
        return false;
      outputs.push_back({memref, index, element});
    }
  return true;
}

void NestEmitter::storeOutputs(ArrayRef<Output> outputs) {
  for (const Output &output : outputs)
    store(output.memref, output.index, output.element);
}
