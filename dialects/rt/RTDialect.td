//===- RTDialect.td - One rank's device program ---------------------------===//
#ifndef SHALE_RT_DIALECT_TD
#define SHALE_RT_DIALECT_TD

include "mlir/IR/OpBase.td"

def RT_Dialect : Dialect {
  let name = "rt";
  let summary = "One rank's device program, one op per runtime call";
  let description = [{
    The ops that a rank executes, in order, on buffers with planned addresses.
    The dialect has no value semantics: only the bodies of kernels use tensors,
    all other computation reads and writes `memref`s, and the order of ops is
    the order of execution.

    A module holds `rt.slot` (the layout of the state block), `rt.constant`
    (read-only data), `rt.kernel` (what a launch computes, still in `nn`) and
    `rt.func @step` and `@evaluate`, whose ops are the calls of
    include/shale/Runtime.h. `nn.state`, `dist.mesh` and `dist.unit` stay in the
    module, because the program's tables are written from them.

    An `rt.buffer` is one allocation. Its live range lasts from its first write
    to its last access; a started collective accesses its buffers until its wait.
    Two buffers may share bytes if their live ranges do not overlap. Values that
    share bytes for other reasons (reshapes, updates in place, a parameter within
    its gathered unit) use one buffer through `rt.view` and `rt.shard`.

    | attribute | on | meaning |
    |---|---|---|
    | `rt.state_bytes`, `rt.arena_bytes` | module | sizes of the blocks in device memory |
    | `rt.host_state_bytes`, `rt.host_arena_bytes` | module | sizes of the blocks in host memory, if anything is offloaded |
    | `rt.threads` | module | threads per rank assumed by the memory plan |
    | `rt.allow_tf32` | module | matmuls of f32 may round their operands to TF32 |
    | `rt.fast_math` | module | kernels of GPUs may approximate exp, tanh and divisions |
    | `rt.bucket` | started collectives | the number of the bucket of the program |
    | `rt.encoding` | started collectives | the encoding of the words that are sent; else elements are |
    | `rt.code` | compiled `rt.kernel` | what its code takes (`dialects/rt/KernelCode.h`) |
  }];
  let cppNamespace = "::shale::rt";
  let discardableAttrs = (ins
    "::mlir::IntegerAttr":$state_bytes,
    "::mlir::IntegerAttr":$arena_bytes,
    "::mlir::IntegerAttr":$host_state_bytes,
    "::mlir::IntegerAttr":$host_arena_bytes,
    "::mlir::IntegerAttr":$threads,
    "::mlir::UnitAttr":$allow_tf32,
    "::mlir::UnitAttr":$fast_math,
    "::mlir::IntegerAttr":$bucket,
    "::mlir::Attribute":$encoding,
    "::mlir::DictionaryAttr":$code
  );
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

#endif // SHALE_RT_DIALECT_TD
