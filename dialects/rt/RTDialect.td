//===- RTDialect.td - One rank's device program ---------------------------===//
#ifndef SHALE_RT_DIALECT_TD
#define SHALE_RT_DIALECT_TD

include "mlir/IR/OpBase.td"

def RT_Dialect : Dialect {
  let name = "rt";
  let summary = "One rank's device program, one op per runtime call";
  let description = [{
    What a rank executes, in order, on buffers whose places are planned. Nothing
    here has value semantics: tensors are gone but for the bodies of kernels,
    every op that works reads and writes `memref`s, and the order of ops is the
    order of execution.

    A module holds `rt.slot` (the layout of the state block), `rt.constant`
    (read-only data), `rt.kernel` (what a launch computes, still in `nn`) and
    `rt.func @step` and `@evaluate`, whose ops are the calls of
    include/shale/Runtime.h. `nn.state`, `dist.mesh` and `dist.unit` stay beside
    them: the program's tables are written from these.

    An `rt.buffer` is one allocation: its bytes are its own from its first write
    to its last access (a started collective accesses until its wait). Two
    buffers may share bytes when these intervals are apart. Everything that
    shares bytes otherwise (reshapes, updates in place, a parameter within its
    gathered unit) is one buffer, through `rt.view` and `rt.shard`.

    The module carries the sizes of the blocks as `rt.state_bytes` and `rt.arena_bytes` (i64), and of
    those in host memory, where something is offloaded, as `rt.host_state_bytes` and `rt.host_arena_bytes`.
    `rt.threads` is the number of threads per rank assumed by the memory plan.
  }];
  let cppNamespace = "::shale::rt";
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
}

#endif // SHALE_RT_DIALECT_TD
