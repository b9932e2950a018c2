//===- OwnKernel.td - Interface of ops with dedicated kernels -------------===//
#ifndef SHALE_TARGET_CPU_OWNKERNEL_TD
#define SHALE_TARGET_CPU_OWNKERNEL_TD

include "mlir/IR/OpBase.td"

def OwnKernelInterface : OpInterface<"OwnKernelOpInterface"> {
  let cppNamespace = "::shale::cpu";
  let description = [{
    An op with a dedicated kernel on CPUs, whose schedule RowKernel.cpp does not
    have (blocked attention, the sum into a table). The op's dialect does not
    depend on this interface: registerCpuKernels attaches the models.
  }];
  let methods = [
    InterfaceMethod<"Returns the number of outer rows, which run in parallel.",
    "int64_t", "getRows", (ins)>,
    InterfaceMethod<"Returns the minimum number of rows per thread.",
    "int64_t", "getGrain", (ins), "", "return 1;">,
    InterfaceMethod<"Returns the bytes of scratch (shale_scratch) per thread.",
    "int64_t", "getScratch", (ins), "", "return 0;">,
    InterfaceMethod<[{
      Emits code that computes rows [begin, end) at `builder`. `operands` and
      `results` are row-major memrefs of rank 1 (i1 as i8).
    }],
    "::mlir::LogicalResult", "emit",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
         "::mlir::ValueRange":$results, "::mlir::Value":$begin, "::mlir::Value":$end,
         "int64_t":$lanes)>,
    InterfaceMethod<"Whether emitWithCasts() works.", "bool", "storesCasts", (ins), "", "return false;">,
    InterfaceMethod<"Like emit(), and also stores casts of results.",
    "::mlir::LogicalResult", "emitWithCasts",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
         "::mlir::ValueRange":$results, "::llvm::ArrayRef<::shale::StoredCast>":$casts,
         "::mlir::Value":$begin, "::mlir::Value":$end, "int64_t":$lanes), "", "return ::llvm::failure();">
  ];
}

#endif // SHALE_TARGET_CPU_OWNKERNEL_TD
