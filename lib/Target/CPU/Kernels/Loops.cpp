//===- Loops.cpp - Building blocks of dedicated kernels -------------------===//
#include "lib/Target/CPU/Kernels/Loops.h"
#include "dialects/interfaces/Interfaces.h"
#include "lib/Codegen/RuntimeCalls.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cpu;

Value Loops::real(double value) {
  return arith::ConstantOp::create(b, loc, b.getF32FloatAttr(value));
}
Value Loops::div(Value x, Value y) { return arith::DivUIOp::create(b, loc, x, y); }
Value Loops::rem(Value x, Value y) { return arith::RemUIOp::create(b, loc, x, y); }

void Loops::forRange(Value lower, Value upper, llvm::function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(b, loc, lower, upper, index(1));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(loop.getBody()->getTerminator());
  body(loop.getInductionVar());
}

SmallVector<Value> Loops::vectors(Value lower, Value upper, ValueRange carried, Body body) {
  Value size = sub(upper, lower), step = index(lanes);
  Value middle = add(lower, mul(arith::DivSIOp::create(b, loc, size, step), step));
  SmallVector<Value> values(carried);
  for (bool masked : {false, true}) {
    auto loop =
        scf::ForOp::create(b, loc, masked ? middle : lower, masked ? upper : middle, step, values);
    {
      OpBuilder::InsertionGuard guard(b);
      bool ends = values.empty();
      if (ends)
        b.setInsertionPoint(loop.getBody()->getTerminator());
      else
        b.setInsertionPointToEnd(loop.getBody());
      Value mask;
      if (masked) {
        Value left = sub(upper, loop.getInductionVar());
        mask = vector::CreateMaskOp::create(b, loc, VectorType::get({lanes}, b.getI1Type()), left);
      }
      SmallVector<Value> next = body(loop.getInductionVar(), mask, loop.getRegionIterArgs());
      if (!ends)
        scf::YieldOp::create(b, loc, next);
    }
    values.assign(loop.getResults().begin(), loop.getResults().end());
  }
  return values;
}

Value Loops::load(Value memref, Value at, Value mask, Type element) {
  if (element && element.isInteger(1)) {
    auto bytes = VectorType::get({lanes}, b.getI8Type());
    Value none = shale::constantLike(b, loc, bytes, 0), value;
    if (mask)
      value = vector::MaskedLoadOp::create(b, loc, bytes, memref, at, mask, none);
    else
      value = vector::LoadOp::create(b, loc, bytes, memref, at);
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, none);
  }
  if (element && shale::is16BitFloat(element)) {
    auto bits = VectorType::get({lanes}, b.getI16Type());
    Value value;
    if (mask)
      value = vector::MaskedLoadOp::create(b, loc, bits, memref, at, mask,
                                           shale::constantLike(b, loc, bits, 0));
    else
      value = vector::LoadOp::create(b, loc, bits, memref, at);
    return shale::widen16Bits(b, loc, arith::BitcastOp::create(b, loc, bits.clone(element), value));
  }
  if (!mask)
    return vector::LoadOp::create(b, loc, wide(), memref, at);
  Value zero = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(wide(), 0.0f));
  return vector::MaskedLoadOp::create(b, loc, wide(), memref, at, mask, zero);
}

Value Loops::loadScalar(Value memref, Value at, Type element) {
  Value value = memref::LoadOp::create(b, loc, memref, at);
  if (element.isInteger(1))
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value,
                                 shale::constantLike(b, loc, value.getType(), 0));
  if (!shale::is16BitFloat(element))
    return value;
  return shale::widen16Bits(b, loc, arith::BitcastOp::create(b, loc, element, value));
}

void Loops::store(Value memref, Value at, Value mask, Value value, Type element) {
  if (element && shale::is16BitFloat(element)) {
    value = shale::narrowTo16Bits(b, loc, value, element);
    value = arith::BitcastOp::create(b, loc, VectorType::get({lanes}, b.getI16Type()), value);
  }
  if (mask)
    vector::MaskedStoreOp::create(b, loc, memref, at, mask, value);
  else
    vector::StoreOp::create(b, loc, value, memref, at);
}

void Loops::zero(Value memref, Value from, Value to) {
  Value nothing = splat(real(0));
  vectors(from, to, {}, [&](Value at, Value mask, ValueRange) -> SmallVector<Value> {
    store(memref, at, mask, nothing);
    return {};
  });
}

void Loops::addInto(Value target, Value to, Value source, Value from, int64_t count, Type element) {
  vectors(index(0), index(count), {}, [&](Value j, Value mask, ValueRange) -> SmallVector<Value> {
    Value more = load(source, add(from, j), mask, element);
    Value sum = arith::AddFOp::create(b, loc, load(target, add(to, j), mask), more);
    store(target, add(to, j), mask, sum);
    return {};
  });
}

Value Loops::within(Value x, Value lower, Value upper) {
  Value above = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, x, lower);
  Value below = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, upper);
  return arith::AndIOp::create(b, loc, above, below);
}

Value Loops::splat(Value scalar) {
  return vector::BroadcastOp::create(b, loc, VectorType::get({lanes}, scalar.getType()), scalar);
}

Value Loops::keep(Value mask, Value next, Value old) {
  return mask ? Value(arith::SelectOp::create(b, loc, mask, next, old)) : next;
}

template <typename Op> static Value fold(OpBuilder &b, Location loc, Value wide) {
  int64_t lanes = cast<VectorType>(wide.getType()).getNumElements();
  for (int64_t half = lanes / 2; half > 0; half /= 2) {
    auto part = [&](int64_t from) {
      return vector::ExtractStridedSliceOp::create(b, loc, wide, ArrayRef<int64_t>{from},
                                                   ArrayRef<int64_t>{half}, ArrayRef<int64_t>{1});
    };
    Value low = part(0), high = part(half);
    wide = Op::create(b, loc, low, high);
  }
  return vector::ExtractOp::create(b, loc, wide, ArrayRef<int64_t>{0});
}

Value Loops::sumLanes(Value vector) { return fold<arith::AddFOp>(b, loc, vector); }
Value Loops::maxLanes(Value vector) { return fold<arith::MaximumFOp>(b, loc, vector); }

Value Loops::constant(StringRef what, DenseElementsAttr values) {
  Operation *function = b.getInsertionBlock()->getParentOp();
  while (!isa<SymbolOpInterface>(function))
    function = function->getParentOp();
  std::string name = (SymbolTable::getSymbolName(function).getValue() + "." + what).str();
  auto memref = MemRefType::get(values.getType().getShape(), values.getElementType());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(function);
    memref::GlobalOp::create(b, loc, name, b.getStringAttr("private"), memref, values,
                             /*constant=*/true, /*alignment=*/IntegerAttr());
  }
  return memref::GetGlobalOp::create(b, loc, memref, name);
}

Value Loops::scratch(Block *entry, int64_t elements) {
  OpBuilder::InsertionGuard guard(b);
  auto module = b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  auto first = MemRefType::get({1}, b.getF32Type()),
       type = MemRefType::get({elements}, b.getF32Type());
  Type i64 = b.getI64Type();
  StringRef name = "shale_scratch";
  auto callee = module.lookupSymbol<func::FuncOp>(name);
  if (!callee) {
    b.setInsertionPointToStart(module.getBody());
    callee = func::FuncOp::create(b, loc, name, b.getFunctionType({i64, i64}, {first}));
    callee.setPrivate();
  }
  b.setInsertionPointToStart(entry);
  int64_t offset = scratchBytes;
  scratchBytes += llvm::alignTo(elements * sizeof(float), 64);
  auto number = [&](int64_t value) {
    return arith::ConstantOp::create(b, loc, b.getI64IntegerAttr(value));
  };
  scratchSizes.push_back(number(scratchBytes));
  for (Operation *size : scratchSizes) // all calls pass the total size
    cast<arith::ConstantOp>(size).setValueAttr(b.getI64IntegerAttr(scratchBytes));
  auto call = func::CallOp::create(b, loc, callee,
                                   ValueRange{scratchSizes.back()->getResult(0), number(offset)});
  return memref::ReinterpretCastOp::create(b, loc, type, call.getResult(0), /*offset=*/0,
                                           ArrayRef<int64_t>{elements}, ArrayRef<int64_t>{1});
}

void Loops::gemm(bool transposeA, bool transposeB, Value m, Value n, Value k, double alpha,
                 const Matrix &a, const Matrix &bm, double beta, const Matrix &c) {
  auto number = [&](Value value) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getI64Type(), value);
  };
  auto address = [&](const Matrix &matrix) -> Value {
    Value base = memref::ExtractAlignedPointerAsIndexOp::create(b, loc, matrix.memref);
    Value at = add(base, mul(matrix.offset, index(sizeof(float))));
    return LLVM::IntToPtrOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), number(at));
  };
  calls::shale_gemm_thread call;
  call.transpose_a = transposeA;
  call.transpose_b = transposeB;
  call.m = number(m);
  call.n = number(n);
  call.k = number(k);
  call.alpha = alpha;
  call.a = address(a);
  call.lda = number(a.stride);
  call.b = address(bm);
  call.ldb = number(bm.stride);
  call.beta = beta;
  call.c = address(c);
  call.ldc = number(c.stride);
  emitCall(b, loc, b.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>(), call);
}
