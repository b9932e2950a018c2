//===- OwnKernel.td - Interface of ops with dedicated kernels -------------===//
#ifndef SHALE_TARGET_CUDA_OWNKERNEL_TD
#define SHALE_TARGET_CUDA_OWNKERNEL_TD

include "mlir/IR/OpBase.td"

def CudaOwnKernelInterface : OpInterface<"OwnKernelOpInterface"> {
  let cppNamespace = "::shale::cuda";
  let description = [{
    An op with a dedicated kernel on GPUs, whose schedule GpuKernel.cpp does not
    have (the update of a flat group, the sum into a table). The op's dialect
    does not depend on this interface: registerCudaKernels attaches the models.
  }];
  let methods = [
    InterfaceMethod<"Whether the op has a kernel with its types.", "bool", "isSupported", (ins), "", "return true;">,
    InterfaceMethod<"Returns the launch: blocks, and threads per block.",
    "::shale::cuda::Launch", "getLaunch", (ins)>,
    InterfaceMethod<[{
      Emits the code of one thread at `builder`, in the body of `function`.
      `operands` and `results` are row-major memrefs of rank 1 (i1 as i8, 16-bit floats as i16).
    }],
    "::mlir::LogicalResult", "emit",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::gpu::GPUFuncOp":$function,
         "::mlir::ValueRange":$operands, "::mlir::ValueRange":$results)>,
    InterfaceMethod<"Whether emitWithCasts() works.", "bool", "storesCasts", (ins), "", "return false;">,
    InterfaceMethod<"Like emit(), and also stores casts of results.",
    "::mlir::LogicalResult", "emitWithCasts",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::gpu::GPUFuncOp":$function,
         "::mlir::ValueRange":$operands, "::mlir::ValueRange":$results,
         "::llvm::ArrayRef<::shale::StoredCast>":$casts), "", "return ::llvm::failure();">
  ];
}

#endif // SHALE_TARGET_CUDA_OWNKERNEL_TD
