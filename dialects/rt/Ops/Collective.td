//===- Collective.td - Collectives, started and waited for ----------------===//
#ifndef SHALE_RT_COLLECTIVE_TD
#define SHALE_RT_COLLECTIVE_TD

include "dialects/rt/RTBase.td"
include "dialects/rt/RTInterfaces.td"

class RT_Start<string mnemonic, string what, string text>
    : RT_Op<mnemonic, [DeclareOpInterfaceMethods<RT_CollectiveInterface, ["getCollectiveKind"]>]> {
  let summary = what;
  let description = !strconcat(text, [{
    Starts, and returns at once; both buffers belong to the runtime until
    `rt.wait` on the token. `site` is its row in the program's table of
    collectives, `name` the unit or value that it moves, `axis` one of the mesh or a joint one.

    Life: made by plan from the `dist.start` of such a collective; becomes the
    runtime call of the same name in codegen, which checks that the sites of a
    module are 0, 1, .., each once.

    Constraints:
    - (C1) element types are equal and the counts agree.

    Example: `%t = rt.}], mnemonic, [{ %0 to %1 site = 0 axis = "fsdp" name = "h.0" : memref<...> to memref<...>`
  }]);
  let arguments = (ins Arg<RT_Buffer, "what is sent", [MemRead]>:$send,
                       Arg<RT_Buffer, "what is received", [MemWrite]>:$recv,
                       RT_Int:$site, StrAttr:$axis, StrAttr:$name);
  let results = (outs RT_Token:$token);
  let assemblyFormat = [{
    $send `to` $recv `site` `=` $site `axis` `=` $axis `name` `=` $name attr-dict `:` type($send) `to` type($recv)
  }];
  let hasVerifier = 1;
}

def RT_AllGatherOp : RT_Start<"all_gather", "Starts an all-gather",
    "recv is the concatenation of all ranks' send; send may be this rank's shard of recv.">;
def RT_ReduceScatterOp : RT_Start<"reduce_scatter", "Starts a reduce-scatter",
    "recv is this rank's slice of the sum of all ranks' send; recv may be this rank's shard of send.">;
def RT_AllReduceOp : RT_Start<"all_reduce", "Starts an all-reduce",
    "recv is the sum of all ranks' send; recv may be send.">;

def RT_AllToAllOp : RT_Op<"all_to_all", [DeclareOpInterfaceMethods<RT_CollectiveInterface, ["getCollectiveKind"]>]> {
  let summary = "Starts an all-to-all";
  let description = [{
    The first dimension of send has one piece for each rank; recv is the concatenation of the pieces that
    all ranks have for this one, in the order of their coordinates. Starts, and returns at once; both
    buffers belong to the runtime until `rt.wait` on the token. `site`, `name` and `axis` are those of
    `rt.all_gather`.

    Life: made by plan from the `dist.start` of a `dist.all_to_all`; becomes the runtime call of the same
    name in codegen.

    Constraints:
    - (C1) element types and counts are equal, and not 0.
    - (C2) send has one piece for each rank of the axis.

    Example: `%t = rt.all_to_all %0 to %1 site = 0 axis = "fsdp" name = "h.0" : memref<2x65xi32> to memref<1x130xi32>`
  }];
  let arguments = (ins Arg<RT_Buffer, "what is sent", [MemRead]>:$send,
                       Arg<RT_Buffer, "what is received", [MemWrite]>:$recv,
                       RT_Int:$site, StrAttr:$axis, StrAttr:$name);
  let results = (outs RT_Token:$token);
  let assemblyFormat = [{
    $send `to` $recv `site` `=` $site `axis` `=` $axis `name` `=` $name attr-dict `:` type($send) `to` type($recv)
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
