//===- NestEmitter.cpp - Emits elements into nested loops -----------------===//
#include "lib/Codegen/NestEmitter.h"
#include "llvm/Support/MathExtras.h"

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

Value NestEmitter::emit(Value value, const LinearIndex &given) {
  if (request)
    return nullptr;
  LinearIndex index = indices.simplify(given);
  unsigned depth = indices.depthOf(index);
  auto key = std::make_pair(value.getAsOpaquePointer(), index);
  auto found = nest.scope(depth).memo.find(key);
  if (found != nest.scope(depth).memo.end())
    return found->second;
  OpBuilder::InsertionGuard guard(b);
  nest.setInsertion(depth);
  Value element;
  if (Value memref = buffers.lookup(value))
    element = load(memref, cast<RankedTensorType>(value.getType()).getElementType(), index);
  else
    element = emitOp(value.getDefiningOp(), index);
  if (element)
    nest.scope(depth).memo[key] = element;
  return element;
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
  auto [low, high] = indices.rangeOf(remainder);
  if (low >= 0 && high < divisor)
    return true;
  for (auto [id, coefficient] : remainder.terms) {
    const IndexEmitter::Dim &dim = indices.dim(id);
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
  // No split removes the division.
  auto [whole, left] = indices.divide(remainder, divisor);
  quotient = quotient.plus(whole);
  remainder = left;
  return true;
}

ElementEmitter::Within NestEmitter::within(const LinearIndex &index, int64_t lo, int64_t hi,
                                           LinearIndex &relative, Value &condition) {
  relative = index.plus(-lo);
  auto [low, high] = indices.rangeOf(index);
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
      auto [restLow, restHigh] = indices.rangeOf(rest);
      const IndexEmitter::Dim &dim = indices.dim(id);
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
  auto test = indices.test(index, lo, hi);
  if (!test)
    return Within::Never;
  std::tie(condition, relative) = *test;
  return Within::Sometimes;
}

bool NestEmitter::runtimeDim(Value value, int64_t size, LinearIndex &index, Value &inside) {
  if (isa<VectorType>(value.getType())) {
    ask({Refinement::Scalar});
    return false;
  }
  std::tie(inside, index) = indices.runtimeDim(value, size);
  return true;
}

Value NestEmitter::loop(const LinearIndex &at, int64_t size, Value initial,
                        llvm::function_ref<Value(const LinearIndex &, Value)> body) {
  // The loop does not depend on deeper scopes: remove them meanwhile.
  LoopNest::Scopes deeper = nest.takeDeeper(nest.insertionDepth());
  Value result;
  {
    OpBuilder::InsertionGuard guard(b);
    Operation *before = nest.scope().before;
    scf::ForOp op = nest.openLoop(nest.constantIndex(0), nest.constantIndex(size), 1, initial);
    LinearIndex dim = indices.addDim(size, op.getInductionVar(), DimOrigin::Other, 0);
    Value next = body(dim, op.getRegionIterArg(0));
    nest.setInsertion();
    scf::YieldOp::create(b, loc, next ? next : op.getRegionIterArg(0));
    nest.popScope();
    nest.scope().before = before;
    result = next ? op.getResult(0) : Value();
  }
  nest.putBack(std::move(deeper));
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
