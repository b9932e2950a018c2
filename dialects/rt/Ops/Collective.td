//===- Collective.td - Collectives, started and waited for ----------------===//
#ifndef SHALE_RT_COLLECTIVE_TD
#define SHALE_RT_COLLECTIVE_TD

include "dialects/rt/RTBase.td"
include "dialects/rt/RTInterfaces.td"

def RT_CollectiveOp : RT_Op<"collective", [DeclareOpInterfaceMethods<RT_CollectiveInterface, ["getCollectiveKind"]>]> {
  let summary = "Starts a collective";
  let description = [{
    The kind is a row of `include/shale/Collectives.def`, which says what `send` and `recv` have: `all_gather`, `reduce_scatter`,
    `all_reduce` or `all_to_all`, whose operand has one piece for each rank along its first dimension. `send` of an all-gather may be this rank's shard of
    `recv`, `recv` of a reduce-scatter that of `send`, and those of an all-reduce may be the same.
    Starts, and returns at once; both buffers belong to the runtime until `rt.wait` on the token. `site` is its row in the program's table of
    collectives, `name` the unit or value that it moves, `axis` one of the mesh or a joint one.

    Life: made by plan from a `dist.start`; becomes `shale_start` in codegen, which checks that the sites of a
    module are 0, 1, .., each once.

    Constraints:
    - (C1) element types are equal, the counts agree and are not 0.
    - (C2) an operand of pieces has one for each rank of the axis.
    - (C3) the kind is known.

    Example: `%t = rt.collective all_gather %0 to %1 site = 0 axis = "fsdp" name = "h.0" : memref<16xf32> to memref<32xf32>`
  }];
  let arguments = (ins I64Attr:$kind, Arg<RT_Buffer, "what is sent", [MemRead]>:$send,
                       Arg<RT_Buffer, "what is received", [MemWrite]>:$recv,
                       RT_Int:$site, StrAttr:$axis, StrAttr:$name);
  let results = (outs RT_Token:$token);
  let builders = [OpBuilder<(ins "::mlir::Type":$token, "::shale::CollectiveKind":$kind, "::mlir::Value":$send, "::mlir::Value":$recv,
                                 "::mlir::IntegerAttr":$site, "::mlir::StringAttr":$axis, "::mlir::StringAttr":$name), [{
    build($_builder, $_state, token, $_builder.getI64IntegerAttr(int64_t(kind)), send, recv, site, axis, name);
  }]>];
  let assemblyFormat = [{
    custom<CollectiveKind>($kind) $send `to` $recv `site` `=` $site `axis` `=` $axis `name` `=` $name attr-dict `:` type($send) `to` type($recv)
  }];
  let hasVerifier = 1;
}

def RT_WaitOp : RT_Op<"wait"> {
  let summary = "Waits until a collective or a copy has finished";
  let description = [{
    Life: made by plan; becomes `shale_wait` in codegen.

    Constraints:
    - (C1) a token is waited for once.

    Example: `rt.wait %t`
  }];
  let arguments = (ins RT_Token:$token);
  let assemblyFormat = "$token attr-dict";
  let hasVerifier = 1;
}

#endif // SHALE_RT_COLLECTIVE_TD
