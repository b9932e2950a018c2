//===- GenerateKernel.cpp - GPU functions of generated kernels ------------===//
#include "lib/Codegen/NestEmitter.h"
#include "lib/Target/CUDA/CUDA.h"
#include "lib/Target/CUDA/Exponential.h"
#include "lib/Target/CUDA/FastMath.h"
#include "lib/Target/CUDA/GpuKernel.h"
#include "lib/Target/CUDA/Kernels/Kernels.h"
#include "lib/Target/CUDA/Remainder.h"
#include "lib/Target/CUDA/SegmentKernel.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

gpu::GPUFuncOp createFunction(OpBuilder &b, ModuleOp module, StringRef name, Region &body,
                              const Launch &launch) {
  auto kernels = module.lookupSymbol<gpu::GPUModuleOp>(kKernelModule);
  if (!kernels) {
    b.setInsertionPointToEnd(module.getBody());
    kernels = gpu::GPUModuleOp::create(b, module.getLoc(), kKernelModule);
  }
  SmallVector<Type> types = memoryTypes(body);
  b.setInsertionPointToEnd(kernels.getBody());
  auto function = gpu::GPUFuncOp::create(b, body.getLoc(), name, b.getFunctionType(types, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function.setKnownBlockSizeAttr(b.getDenseI32ArrayAttr({int32_t(launch.threads), 1, 1}));
  function.setKnownGridSizeAttr(b.getDenseI32ArrayAttr({int32_t(launch.blocks), 1, 1}));
  b.setInsertionPointToEnd(&function.getBody().front());
  return function;
}

/// Whether 32 bits hold each index of a kernel of rows and columns: numbers of elements of its
/// values, up to those of a last block that is not full.
bool hasNarrowIndices(Region &body) {
  auto small = [](Value value) { return nn::elements(value) < int64_t(1) << 30; };
  return llvm::all_of(body.getArguments(), small) &&
         llvm::all_of(body.front().without_terminator(),
                      [&](Operation &op) { return llvm::all_of(op.getResults(), small); });
}

LogicalResult emitOwn(OpBuilder &b, gpu::GPUFuncOp function, OwnKernelForm form, Region &body) {
  auto op = cast<cuda::OwnKernelOpInterface>(form.op);
  auto arguments = ValueRange(function.getBody().getArguments());
  IRMapping buffers;
  buffers.map(body.getArguments(), arguments.take_front(body.getNumArguments()));
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(buffers.lookup(operand));
  SmallVector<Value> results(arguments.slice(body.getNumArguments(), op->getNumResults()));
  for (auto [i, cast] : llvm::enumerate(form.casts))
    cast.memref = arguments[body.getNumArguments() + op->getNumResults() + i];
  if (failed(form.casts.empty() ? op.emit(b, function, operands, results)
                                : op.emitWithCasts(b, function, operands, results, form.casts)))
    return failure();
  b.setInsertionPointToEnd(&function.getBody().front());
  gpu::ReturnOp::create(b, function.getLoc());
  return success();
}

} // namespace

FailureOr<KernelInfo> CudaTarget::generateKernel(ModuleOp module, StringRef name,
                                                 Region &body) const {
  OpBuilder b(module.getContext());
  auto finish = [&](const Launch &launch, auto emit) -> FailureOr<KernelInfo> {
    if (launch.blocks > INT32_MAX)
      return body.getParentOp()->emitError()
             << "the kernel needs " << launch.blocks << " blocks; a GPU has at most " << INT32_MAX;
    gpu::GPUFuncOp function = createFunction(b, module, name, body, launch);
    if (succeeded(emit(function))) {
      expandRemainders(function);
      if (module->hasAttr(rt::kFastMathAttr))
        allowApproximations(function);
      expandExponentials(function);
      return KernelInfo{launch.blocks, 1, 0, launch.threads};
    }
    function.erase();
    return failure();
  };
  OwnKernelForm own = findOwnKernelForm(body);
  if (auto op = dyn_cast_or_null<cuda::OwnKernelOpInterface>(own.op);
      op && (own.casts.empty() || op.storesCasts()))
    return finish(op.getLaunch(),
                  [&](gpu::GPUFuncOp function) { return emitOwn(b, function, own, body); });
  FailureOr<SegmentForm> segments = findSegmentForm(body);
  if (failed(segments))
    return failure();
  if (segments->kind != SegmentForm::None)
    return finish(launchOf(*segments), [&](gpu::GPUFuncOp function) {
      return emitSegments(b, function, body, *segments);
    });
  FailureOr<RowForm> form = chooseForm(body);
  if (failed(form))
    return failure();
  if (form->sumParts > 0 && columnSumParts(form->rows, form->columns, form->sums.size()) == 0)
    return LogicalResult(body.getParentOp()->emitError()
                         << "no schedule found for rows and sums of their columns");
  GpuSchedule schedule = chooseSchedule(*form, body);
  return finish({schedule.blocks, schedule.threads}, [&](gpu::GPUFuncOp function) {
    if (hasNarrowIndices(body))
      function->setAttr(kNarrowIndex, b.getUnitAttr());
    if (emitKernel(b, function, body, *form, schedule))
      return LogicalResult(success());
    return LogicalResult(body.getParentOp()->emitError() << "no schedule found for this kernel");
  });
}
