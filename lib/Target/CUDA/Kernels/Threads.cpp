//===- Threads.cpp - Building blocks of dedicated GPU kernels -------------===//
#include "lib/Target/CUDA/Kernels/Threads.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale::cuda;

Value Threads::block() { return gpu::BlockIdOp::create(b, loc, gpu::Dimension::x); }
Value Threads::thread() { return gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x); }
Value Threads::load(Value memref, Value at) { return memref::LoadOp::create(b, loc, memref, at); }
void Threads::store(Value value, Value memref, Value at) {
  memref::StoreOp::create(b, loc, value, memref, at);
}
Value Threads::loadIndex(Value memref, Value at) { return toIndex(load(memref, at)); }
void Threads::barrier() { gpu::BarrierOp::create(b, loc); }

void Threads::when(Value condition, llvm::function_ref<void()> body) {
  auto branch = scf::IfOp::create(b, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenYield());
  body();
}

void Threads::forRange(Value lower, Value upper, Value step, llvm::function_ref<void(Value)> body) {
  auto loop = scf::ForOp::create(b, loc, lower, upper, step);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  body(loop.getInductionVar());
}

Threads::Values Threads::fold(Value lower, Value upper, Value step, const Values &initial,
                              llvm::function_ref<Values(Value, ValueRange)> body) {
  auto loop = scf::ForOp::create(b, loc, lower, upper, step, initial);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b, loc, body(loop.getInductionVar(), loop.getRegionIterArgs()));
  return Values(loop.getResults());
}

Value Threads::shared(int64_t elements, Type element, int64_t alignment) {
  auto space = gpu::AddressSpaceAttr::get(b.getContext(), gpu::AddressSpace::Workgroup);
  auto type = MemRefType::get({elements}, element, AffineMap(), space);
  Value memory = function.addWorkgroupAttribution(type, loc);
  if (alignment > 0)
    function.setWorkgroupAttributionAttr(function.getNumWorkgroupAttributions() - 1,
                                         LLVM::LLVMDialect::getAlignAttrName(),
                                         b.getI32IntegerAttr(alignment));
  return memory;
}

Value Threads::constant(StringRef what, DenseElementsAttr values) {
  auto module = function->getParentOfType<gpu::GPUModuleOp>();
  std::string name = (function.getName() + "." + what).str();
  auto type = MemRefType::get(values.getType().getShape(), values.getElementType());
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    memref::GlobalOp::create(b, loc, name, b.getStringAttr("private"), type, values,
                             /*constant=*/true, /*alignment=*/IntegerAttr());
  }
  return memref::GetGlobalOp::create(b, loc, type, name);
}
