//===- KernelEmitter.cpp - Emits elements as scf, vector and arith --------===//
#include "lib/Target/CPU/KernelEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

// ---- scopes and loops

void KernelEmitter::pushScope(Block *block, Operation *before) {
  scopes.push_back(std::make_unique<Scope>(Scope{block, before, {}}));
  setInsertion(depth());
}

void KernelEmitter::popScope() { scopes.pop_back(); }

void KernelEmitter::setInsertion(unsigned depth) {
  Scope &scope = *scopes[depth];
  if (scope.before)
    b.setInsertionPoint(scope.before);
  else
    b.setInsertionPointToEnd(scope.block);
}

LinearIndex KernelEmitter::addDim(int64_t size, Value value, DimOrigin origin, unsigned position,
                                  bool isLane) {
  unsigned id = dims.size();
  dims.push_back({size, value, depth(), origin, position});
  if (isLane && lanes > 1)
    laneDim = id;
  // A dimension of size 1 is always 0. Without its term equal indices compare equal.
  return size == 1 ? LinearIndex() : LinearIndex::dim(id);
}

scf::ForOp KernelEmitter::openLoop(Value lower, Value upper, int64_t step, ValueRange values) {
  setInsertion(depth());
  Value stride = constantIndex(step);
  auto loop = scf::ForOp::create(b, loc, lower, upper, stride, values);
  // Values of this scope that the body uses are emitted before the loop.
  scope().before = loop;
  Block *body = loop.getBody();
  pushScope(body, body->mightHaveTerminator() ? body->getTerminator() : nullptr);
  return loop;
}

ValueRange KernelEmitter::closeLoop(scf::ForOp loop, ValueRange values) {
  setInsertion(depth());
  if (!scope().before)
    scf::YieldOp::create(b, loc, values);
  popScope();
  Operation *next = loop->getNextNode();
  scope().before = next;
  setInsertion(depth());
  return loop.getResults();
}

Value KernelEmitter::constantIndex(int64_t value) {
  return arith::ConstantIndexOp::create(b, loc, value);
}

unsigned KernelEmitter::depthOf(const LinearIndex &index) const {
  unsigned depth = 0;
  for (auto [id, coefficient] : index.terms)
    depth = std::max(depth, dims[id].depth);
  return depth;
}

std::pair<int64_t, int64_t> KernelEmitter::rangeOf(const LinearIndex &index) const {
  int64_t low = index.constant, high = index.constant;
  for (auto [id, coefficient] : index.terms)
    (coefficient < 0 ? low : high) += coefficient * (dims[id].size - 1);
  return {low, high};
}

Value KernelEmitter::materialize(const LinearIndex &index) {
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

// ---- memory

static Value fromMemory(OpBuilder &b, Location loc, Value value, Type element) {
  if (is16BitFloat(element)) {
    Type type = element;
    if (auto wide = dyn_cast<VectorType>(value.getType()))
      type = wide.clone(element);
    return arith::BitcastOp::create(b, loc, type, value);
  }
  if (!element.isInteger(1))
    return value;
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value,
                               constantLike(b, loc, value.getType(), 0));
}

static Value stepVector(OpBuilder &b, Location loc, int64_t lanes, int64_t factor, Type element) {
  SmallVector<APInt> values;
  for (int64_t i = 0; i < lanes; ++i)
    values.push_back(APInt(element.getIntOrFloatBitWidth(), i * factor, /*isSigned=*/true,
                           /*implicitTrunc=*/true));
  return arith::ConstantOp::create(
      b, loc, DenseElementsAttr::get(VectorType::get({lanes}, element), values));
}

Value KernelEmitter::load(Value memref, Type element, const LinearIndex &index) {
  Value offset = materialize(index);
  int64_t step = laneStep(index);
  Type stored = memoryType(element);
  if (step == 0)
    return fromMemory(b, loc, memref::LoadOp::create(b, loc, memref, offset), element);
  VectorType wide = vectorOf(stored);
  Value nothing = constantLike(b, loc, wide, 0), value;
  if (step == 1 && !mask) {
    value = vector::LoadOp::create(b, loc, wide, memref, offset);
  } else if (step == 1) {
    value = vector::MaskedLoadOp::create(b, loc, wide, memref, offset, mask, nothing);
  } else {
    Value all = mask ? mask : constantLike(b, loc, vectorOf(b.getI1Type()), 1);
    Value places = stepVector(b, loc, lanes, step, b.getI64Type());
    value = vector::GatherOp::create(b, loc, wide, memref, offset, places, all, nothing);
  }
  return fromMemory(b, loc, value, element);
}

void KernelEmitter::store(Value memref, const LinearIndex &index, Value element) {
  Value offset = materialize(index);
  int64_t step = laneStep(index);
  if (getElementTypeOrSelf(element.getType()).isInteger(1)) {
    Type byte = b.getI8Type();
    if (auto wide = dyn_cast<VectorType>(element.getType()))
      byte = wide.clone(byte);
    element = arith::ExtUIOp::create(b, loc, byte, element);
  } else if (is16BitFloat(getElementTypeOrSelf(element.getType()))) {
    Type bits = b.getI16Type();
    if (auto wide = dyn_cast<VectorType>(element.getType()))
      bits = wide.clone(bits);
    element = arith::BitcastOp::create(b, loc, bits, element);
  }
  if (step == 0) {
    memref::StoreOp::create(b, loc, element, memref, offset);
    return;
  }
  if (!isa<VectorType>(element.getType()))
    element = vector::BroadcastOp::create(b, loc, vectorOf(element.getType()), element);
  if (step != 1) {
    Value all = mask ? mask : constantLike(b, loc, vectorOf(b.getI1Type()), 1);
    Value places = stepVector(b, loc, lanes, step, b.getI64Type());
    vector::ScatterOp::create(b, loc, /*resultType=*/Type(), memref, offset, places, all, element);
  } else if (mask) {
    vector::MaskedStoreOp::create(b, loc, memref, offset, mask, element);
  } else {
    vector::StoreOp::create(b, loc, element, memref, offset);
  }
}

// ---- interface of the ops

Value KernelEmitter::widen(const LinearIndex &at, Value value) {
  if (laneStep(at) == 0 || isa<VectorType>(value.getType()))
    return value;
  return vector::BroadcastOp::create(b, loc, vectorOf(value.getType()), value);
}

Value KernelEmitter::emitOp(Operation *op, Value value, const LinearIndex &index) {
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

Value KernelEmitter::emit(Value value, const LinearIndex &index) {
  if (request)
    return nullptr;
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
    element = emitOp(value.getDefiningOp(), value, index);
  if (element)
    scopes[depth]->memo[key] = element;
  return element;
}

bool KernelEmitter::divide(const LinearIndex &index, int64_t divisor, LinearIndex &quotient,
                           LinearIndex &remainder) {
  quotient = LinearIndex();
  remainder = LinearIndex();
  if (divisor == 1) {
    quotient = index;
    return true;
  }
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
  if (laneStep(remainder) != 0) {
    ask({Refinement::Scalar});
    return false;
  }
  // No split removes the division: emit it.
  unsigned depth = depthOf(remainder);
  OpBuilder::InsertionGuard guard(b);
  setInsertion(depth);
  Value number = materialize(remainder), by = constantIndex(divisor);
  Value whole = arith::FloorDivSIOp::create(b, loc, number, by);
  Value rest = arith::SubIOp::create(b, loc, number, arith::MulIOp::create(b, loc, whole, by));
  auto newDim = [&](Value value, int64_t size) {
    dims.push_back({size, value, depth, DimOrigin::Other, 0});
    return LinearIndex::dim(dims.size() - 1);
  };
  quotient = quotient.plus(newDim(whole, high / divisor + 1));
  remainder = newDim(rest, divisor);
  return true;
}

ElementEmitter::Within KernelEmitter::within(const LinearIndex &index, int64_t lo, int64_t hi,
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
  if (laneStep(index) != 0) {
    ask({Refinement::Scalar});
    return Within::Retry;
  }
  Value at = materialize(relative), zero = constantIndex(0);
  Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, at, zero);
  Value below =
      arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, at, constantIndex(hi - lo));
  condition = arith::AndIOp::create(b, loc, above, below);
  if (!runtimeDim(arith::SelectOp::create(b, loc, condition, at, zero), hi - lo, relative))
    return Within::Retry;
  return Within::Sometimes;
}

Value KernelEmitter::number(const LinearIndex &index, Type element) {
  bool real = isa<FloatType>(element);
  auto [low, high] = rangeOf(index);
  bool small = low >= INT32_MIN && high <= INT32_MAX;
  Type integer = real ? Type(b.getIntegerType(small ? 32 : 64)) : element;
  Value value = arith::IndexCastOp::create(b, loc, integer, materialize(index));
  if (int64_t step = laneStep(index)) {
    value = vector::BroadcastOp::create(b, loc, vectorOf(integer), value);
    value = arith::AddIOp::create(b, loc, value, stepVector(b, loc, lanes, step, integer));
  }
  if (!real)
    return value;
  Type type = element;
  if (auto wide = dyn_cast<VectorType>(value.getType()))
    type = wide.clone(element);
  return arith::SIToFPOp::create(b, loc, type, value);
}

bool KernelEmitter::runtimeDim(Value value, int64_t size, LinearIndex &index) {
  if (isa<VectorType>(value.getType())) {
    ask({Refinement::Scalar});
    return false;
  }
  // The value belongs to the scope of the current insertion point.
  unsigned at = depth();
  for (unsigned i = 0; i < scopes.size(); ++i)
    if (scopes[i]->block == b.getInsertionBlock())
      at = i;
  dims.push_back({size, value, at, DimOrigin::Other, 0});
  index = LinearIndex::dim(dims.size() - 1);
  return true;
}

Value KernelEmitter::loop(const LinearIndex &at, int64_t size, Value initial,
                          llvm::function_ref<Value(const LinearIndex &, Value)> body) {
  // The loop does not depend on deeper scopes: remove them meanwhile.
  unsigned here = depth();
  for (unsigned i = 0; i < scopes.size(); ++i)
    if (scopes[i]->block == b.getInsertionBlock())
      here = i;
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

Value shale::foldLanes(OpBuilder &b, Location loc, Value wide,
                       llvm::function_ref<Value(Value, Value)> combine) {
  auto type = cast<VectorType>(wide.getType());
  for (int64_t width = type.getNumElements(); width > 1; width /= 2) {
    Value low = vector::ExtractStridedSliceOp::create(
        b, loc, wide, ArrayRef<int64_t>{0}, ArrayRef<int64_t>{width / 2}, ArrayRef<int64_t>{1});
    Value high =
        vector::ExtractStridedSliceOp::create(b, loc, wide, ArrayRef<int64_t>{width / 2},
                                              ArrayRef<int64_t>{width / 2}, ArrayRef<int64_t>{1});
    wide = combine(low, high);
  }
  return vector::ExtractOp::create(b, loc, wide, ArrayRef<int64_t>{0});
}
