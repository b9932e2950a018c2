//===- OwnKernel.td - Kernels with a schedule of their own ----------------===//
#ifndef SHALE_TARGET_CPU_OWNKERNEL_TD
#define SHALE_TARGET_CPU_OWNKERNEL_TD

include "mlir/IR/OpBase.td"

def OwnKernelInterface : OpInterface<"OwnKernel"> {
  let cppNamespace = "::shale::cpu";
  let description = [{
    An op that is a kernel by itself on CPUs, with a schedule that the row form
    does not have (blocked attention, the sum into a table). The op's dialect
    does not depend on it: models are attached by registerCpuTarget.
  }];
  let methods = [
    InterfaceMethod<"Returns the outer rows that run in parallel.",
    "int64_t", "getRows", (ins)>,
    InterfaceMethod<"Returns the number of rows that one thread takes at least.",
    "int64_t", "getGrain", (ins), "", "return 1;">,
    InterfaceMethod<"Returns the bytes of scratch (shale_scratch) that one thread needs.",
    "int64_t", "getScratch", (ins), "", "return 0;">,
    InterfaceMethod<[{
      Emits the work of rows [begin, end) at `builder`: `operands` and `results`
      are row-major memrefs of rank 1 (i1 as i8).
    }],
    "::mlir::LogicalResult", "emit",
    (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands,
         "::mlir::ValueRange":$results, "::mlir::Value":$begin, "::mlir::Value":$end,
         "int64_t":$lanes)>
  ];
}

#endif // SHALE_TARGET_CPU_OWNKERNEL_TD
