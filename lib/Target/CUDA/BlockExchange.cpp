//===- BlockExchange.cpp - Values that threads of a block exchange --------===//
#include "lib/Target/CUDA/BlockExchange.h"
#include "dialects/nn/Emit/Reduction.h"
#include "lib/Codegen/NestEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

static constexpr int64_t kWarp = 32;

Value BlockExchange::index(int64_t value) { return arith::ConstantIndexOp::create(b, loc, value); }

Value BlockExchange::makeShared(int64_t count, Type element, int64_t alignment) {
  auto type =
      MemRefType::get({count}, memoryType(element), AffineMap(),
                      gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup));
  BlockArgument memory = function.addWorkgroupAttribution(type, loc);
  if (alignment > 0)
    function.setWorkgroupAttributionAttr(function.getNumWorkgroupAttributions() - 1,
                                         LLVM::LLVMDialect::getAlignAttrName(),
                                         b.getI32IntegerAttr(alignment));
  return memory;
}

void BlockExchange::store(Value value, Value shared, Value at) {
  if (value.getType().isInteger(1))
    value = arith::ExtUIOp::create(b, loc, b.getI8Type(), value);
  memref::StoreOp::create(b, loc, value, shared, at);
}

Value BlockExchange::load(Value shared, Value at, Type type) {
  Value value = memref::LoadOp::create(b, loc, shared, at);
  return type.isInteger(1) ? Value(arith::TruncIOp::create(b, loc, type, value)) : value;
}

Value BlockExchange::reduceHalves(nn::ReduceKind kind, ArrayRef<Value> values) {
  if (values.size() == 1)
    return values.front();
  size_t half = values.size() / 2;
  SmallVector<Value> sums;
  for (auto [low, high] : llvm::zip(values.take_front(half), values.drop_front(half)))
    sums.push_back(nn::combine(b, loc, kind, low, high));
  return reduceHalves(kind, sums);
}

Value BlockExchange::reduceRow(nn::ReduceKind kind, Value value, const RowPlace &place,
                               Value turn) {
  for (int64_t offset = kWarp / 2; offset > 0; offset /= 2)
    value = nn::combine(b, loc, kind, value, shuffle(value, offset));
  if (place.threads == kWarp)
    return value;
  int64_t warps = place.threads / kWarp, all = warps * place.rows;
  Value shared = makeShared(turn ? 2 * all : all, value.getType());
  Value size = index(kWarp);
  Value warp = arith::DivUIOp::create(b, loc, place.thread, size);
  Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                      arith::RemUIOp::create(b, loc, place.thread, size), index(0));
  auto plus = [&](Value start, Value number, int64_t each) -> Value {
    Value own = number ? Value(arith::MulIOp::create(b, loc, number, index(each))) : Value();
    return start && own ? Value(arith::AddIOp::create(b, loc, start, own)) : start ? start : own;
  };
  auto from = [&](Value start, Value at) {
    return start ? Value(arith::AddIOp::create(b, loc, start, at)) : at;
  };
  Value buffer = plus(Value(), turn, all), row = plus(buffer, place.row, warps);
  {
    OpBuilder::InsertionGuard guard(b);
    auto branch = scf::IfOp::create(b, loc, first, /*withElseRegion=*/false);
    b.setInsertionPoint(branch.thenYield());
    store(value, shared, from(buffer, warp));
  }
  gpu::BarrierOp::create(b, loc);
  SmallVector<Value> sums;
  for (int64_t i = 0; i < warps; ++i)
    sums.push_back(load(shared, from(row, index(i)), value.getType()));
  return reduceHalves(kind, sums);
}

Value BlockExchange::shuffle(Value value, int64_t offset) {
  Type type = value.getType();
  Type i32 = b.getI32Type();
  auto exchange = [&](Value word) -> Value {
    return gpu::ShuffleOp::create(b, loc, word, offset, kWarp, gpu::ShuffleMode::XOR)
        .getShuffleResult();
  };
  unsigned bits = type.getIntOrFloatBitWidth();
  if (bits == 32 || bits == 64) {
    Type word = b.getIntegerType(bits);
    Value raw = type == word ? value : Value(arith::BitcastOp::create(b, loc, word, value));
    if (bits == 32) {
      raw = exchange(raw);
    } else {
      Value half = arith::ConstantIntOp::create(b, loc, word, 32);
      Value low = exchange(arith::TruncIOp::create(b, loc, i32, raw));
      Value high =
          exchange(arith::TruncIOp::create(b, loc, i32, arith::ShRUIOp::create(b, loc, raw, half)));
      high = arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, word, high), half);
      raw = arith::OrIOp::create(b, loc, arith::ExtUIOp::create(b, loc, word, low), high);
    }
    return type == word ? raw : Value(arith::BitcastOp::create(b, loc, type, raw));
  }
  Type small = b.getIntegerType(bits);
  Value raw = isa<FloatType>(type) ? Value(arith::BitcastOp::create(b, loc, small, value)) : value;
  raw = exchange(arith::ExtUIOp::create(b, loc, i32, raw));
  raw = arith::TruncIOp::create(b, loc, small, raw);
  return isa<FloatType>(type) ? Value(arith::BitcastOp::create(b, loc, type, raw)) : raw;
}
