//===- Emulate.cpp - GPU kernels as functions of the host -----------------===//
//
// The same gpu functions, compiled for the CPU: one function computes one thread and
// calls the emulator (include/shale/Emulation.h) at barriers, shuffles and accesses
// to memory. Arithmetic is the same as on the GPU: the same polynomials, no
// contraction.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CPU/CPU.h"
#include "lib/Target/CUDA/EmulatedThread.h"
#include "lib/Target/CUDA/GpuCode.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

/// Rewrites the body of one kernel, which is a func.func with the thread's context as first
/// argument.
class KernelRewriter {
public:
  KernelRewriter(func::FuncOp function, ModuleOp module)
      : module(module), function(function), b(function.getContext()),
        thread(b, function.getLoc(), function.getBody().getArgument(0)) {}

  /// Makes the workgroup buffers plain arguments. Returns their offsets in the block's shared
  /// memory, and its bytes at the end.
  SmallVector<int64_t> placeShared(ArrayRef<BlockArgument> buffers);
  LogicalResult run();

private:
  void noteAccess(Operation *op, Value memref, Value index, Type accessed, bool write);

  ModuleOp module;
  func::FuncOp function;
  OpBuilder b;
  EmulatedThread thread;
  int32_t site = 0;
};

SmallVector<int64_t> KernelRewriter::placeShared(ArrayRef<BlockArgument> buffers) {
  SmallVector<int64_t> places{0};
  for (BlockArgument buffer : buffers) {
    auto old = cast<MemRefType>(buffer.getType());
    auto type = MemRefType::get(old.getShape(), old.getElementType());
    buffer.setType(type);
    places.push_back(places.back() +
                     llvm::alignTo(type.getNumElements() * valueBytes(type.getElementType()), 16));
  }
  return places;
}

void KernelRewriter::noteAccess(Operation *op, Value memref, Value index, Type accessed,
                                bool write) {
  if (!isa<BlockArgument>(memref)) // constant data
    return;
  Location loc = thread.loc;
  b.setInsertionPoint(op);
  int64_t element = valueBytes(cast<MemRefType>(memref.getType()).getElementType());
  Value start = memref::ExtractAlignedPointerAsIndexOp::create(b, loc, memref);
  auto number = [&](Value value) {
    return arith::IndexCastOp::create(b, loc, b.getI64Type(), value).getResult();
  };
  Value at = arith::MulIOp::create(b, loc, number(index), thread.i64(element));
  at = arith::AddIOp::create(b, loc, number(start), at);
  Value address = LLVM::IntToPtrOp::create(b, loc, thread.pointer(), at);
  thread.call(EmulatedThread::Access, Type(),
              {address, thread.i32(valueBytes(accessed)), thread.i32(write), thread.i32(site++)});
}

LogicalResult KernelRewriter::run() {
  SmallVector<Operation *> ops;
  function.walk([&](Operation *op) { ops.push_back(op); });
  for (Operation *op : ops) {
    Location loc = thread.loc = op->getLoc();
    b.setInsertionPoint(op);
    auto replace = [&](ValueRange values) {
      op->replaceAllUsesWith(values);
      op->erase();
    };
    auto number = [&](EmulatedThread::Field which) {
      replace(
          arith::IndexCastOp::create(b, loc, b.getIndexType(), thread.field(which, b.getI64Type()))
              .getResult());
    };
    LogicalResult done =
        TypeSwitch<Operation *, LogicalResult>(op)
            .Case([&](gpu::ThreadIdOp) { return number(EmulatedThread::Thread), success(); })
            .Case([&](gpu::BlockIdOp) { return number(EmulatedThread::Block), success(); })
            .Case([&](gpu::BarrierOp) {
              thread.call(EmulatedThread::Barrier, Type(), {thread.i32(site++)});
              op->erase();
              return success();
            })
            .Case([&](gpu::ShuffleOp shuffle) {
              int64_t mode = shuffle.getMode() == gpu::ShuffleMode::XOR    ? 0
                             : shuffle.getMode() == gpu::ShuffleMode::UP   ? 1
                             : shuffle.getMode() == gpu::ShuffleMode::DOWN ? 2
                                                                           : 3;
              Value value = shuffle.getValue();
              Type type = value.getType();
              if (!type.isInteger(32) && !type.isF32())
                return LogicalResult(op->emitOpError("exchanges other than 32 bits"));
              if (type.isF32())
                value = arith::BitcastOp::create(b, loc, b.getI32Type(), value);
              Value both = thread.call(EmulatedThread::Shuffle, b.getI64Type(),
                                       {value, shuffle.getOffset(), shuffle.getWidth(),
                                        thread.i32(mode), thread.i32(site++)});
              Value bits = arith::TruncIOp::create(b, loc, b.getI32Type(), both);
              if (type.isF32())
                bits = arith::BitcastOp::create(b, loc, type, bits);
              Value valid = arith::TruncIOp::create(
                  b, loc, b.getI1Type(), arith::ShRUIOp::create(b, loc, both, thread.i64(32)));
              replace({bits, valid});
              return success();
            })
            .Case([&](NVVM::MmaOp mma) { return emulateMatmul(mma, module, thread, site); })
            .Case([&](memref::LoadOp load) {
              noteAccess(op, load.getMemRef(), load.getIndices().front(), load.getType(), false);
              return success();
            })
            .Case([&](memref::StoreOp store) {
              noteAccess(op, store.getMemRef(), store.getIndices().front(),
                         store.getValueToStore().getType(), true);
              return success();
            })
            .Case([&](vector::LoadOp load) {
              noteAccess(op, load.getBase(), load.getIndices().front(), load.getType(), false);
              return success();
            })
            .Case([&](vector::StoreOp store) {
              noteAccess(op, store.getBase(), store.getIndices().front(),
                         store.getValueToStore().getType(), true);
              return success();
            })
            .Case([&](gpu::ReturnOp) {
              func::ReturnOp::create(b, loc);
              op->erase();
              return success();
            })
            .Default([](Operation *other) {
              if (isa_and_nonnull<gpu::GPUDialect>(other->getDialect()))
                return LogicalResult(other->emitOpError("has no emulation"));
              return success();
            });
    if (failed(done))
      return failure();
  }
  return success();
}

/// A kernel on its way to the host.
struct Moved {
  HostKernel kernel;
  SmallVector<int64_t> sharedPlaces; ///< of the buffers that follow, in shared memory
};

FailureOr<std::vector<Moved>> move(gpu::GPUModuleOp kernels, ModuleOp host) {
  OpBuilder b(host.getContext());
  Type pointer = LLVM::LLVMPointerType::get(host.getContext());
  std::vector<Moved> all;
  for (Operation &op : llvm::make_early_inc_range(*kernels.getBody())) {
    auto kernel = dyn_cast<gpu::GPUFuncOp>(op);
    if (!kernel) { // constant data
      op.remove();
      host.push_back(&op);
      continue;
    }
    unsigned buffers = kernel.getFunctionType().getNumInputs();
    Region &body = kernel.getBody();
    body.insertArgument(0u, pointer, kernel.getLoc());
    b.setInsertionPointToEnd(host.getBody());
    auto function =
        func::FuncOp::create(b, kernel.getLoc(), kernel.getName(), b.getFunctionType({}, {}));
    function.getBody().takeBody(body);
    KernelRewriter rewriter(function, host);
    SmallVector<int64_t> places = rewriter.placeShared(
        llvm::to_vector(function.getBody().getArguments().drop_front(buffers + 1)));
    function.setType(b.getFunctionType(function.getBody().getArgumentTypes(), {}));
    if (failed(rewriter.run()))
      return failure();
    int64_t bytes = places.pop_back_val();
    all.push_back({{function.getName().str(),
                    kernel.getKnownBlockSize().value_or(ArrayRef<int32_t>{1}).front(),
                    int32_t(buffers), bytes},
                   places});
  }
  kernels.erase();
  return all;
}

/// Builds llvm.func @name(%context, %args), which loads the buffers' addresses and calls the
/// kernel. The kernel becomes internal, so that it is inlined.
void wrap(LLVM::LLVMFuncOp inner, const Moved &moved) {
  OpBuilder b(inner);
  Location loc = inner.getLoc();
  inner.setName(moved.kernel.name + "_body");
  inner.setLinkage(LLVM::Linkage::Internal);
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  auto type =
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), {pointer, pointer});
  auto outer = LLVM::LLVMFuncOp::create(b, loc, moved.kernel.name, type);
  b.setInsertionPointToEnd(outer.addEntryBlock(b));
  SmallVector<Value> operands{outer.getArgument(0)};
  for (int64_t i = 0; i < moved.kernel.buffers; ++i)
    operands.push_back(
        LLVM::LoadOp::create(b, loc, pointer,
                             LLVM::GEPOp::create(b, loc, pointer, pointer, outer.getArgument(1),
                                                 ArrayRef<LLVM::GEPArg>{int32_t(i)})));
  Value shared;
  for (int64_t place : moved.sharedPlaces) {
    if (!shared)
      shared = LLVM::LoadOp::create(
          b, loc, pointer,
          LLVM::GEPOp::create(b, loc, pointer, b.getI64Type(), outer.getArgument(0),
                              ArrayRef<LLVM::GEPArg>{int32_t(EmulatedThread::Shared)}));
    operands.push_back(LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), shared,
                                           ArrayRef<LLVM::GEPArg>{int32_t(place)}));
  }
  LLVM::CallOp::create(b, loc, inner, operands);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

/// Defines the function by which LLVM 22 rounds a float to bfloat on x86-64, which libgcc has since
/// version 13. It calls it for a bfloat that crosses blocks, and thus only for exact values:
/// kernels round by integer arithmetic (roundByIntegers).
void defineNarrowing(ModuleOp module) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  auto function = LLVM::LLVMFuncOp::create(
      b, loc, "__truncsfbf2", LLVM::LLVMFunctionType::get(b.getBF16Type(), {b.getF32Type()}),
      LLVM::Linkage::Weak);
  b.setInsertionPointToStart(function.addEntryBlock(b));
  Value bits = LLVM::BitcastOp::create(b, loc, b.getI32Type(), function.getArgument(0));
  Value half = LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(16));
  Value high =
      LLVM::TruncOp::create(b, loc, b.getI16Type(), LLVM::LShrOp::create(b, loc, bits, half));
  LLVM::ReturnOp::create(b, loc, LLVM::BitcastOp::create(b, loc, b.getBF16Type(), high));
}

} // namespace

FailureOr<std::vector<HostKernel>> cuda::lowerToHost(ModuleOp module) {
  auto kernels = module.lookupSymbol<gpu::GPUModuleOp>(kKernelModule);
  std::vector<HostKernel> made;
  if (!kernels)
    return made;
  FailureOr<std::vector<Moved>> moved = move(kernels, module);
  if (failed(moved) || failed(cpu::lowerFunctions(module)))
    return failure();
  for (const Moved &one : *moved) {
    wrap(module.lookupSymbol<LLVM::LLVMFuncOp>(one.kernel.name), one);
    made.push_back(one.kernel);
  }
  defineNarrowing(module);
  return made;
}
