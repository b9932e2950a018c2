//===- Async.td - Collectives split into start and wait -------------------===//
#ifndef SHALE_DIST_ASYNC_TD
#define SHALE_DIST_ASYNC_TD

include "dialects/dist/DistBase.td"

def Dist_StartOp : Dist_Op<"start", [IsolatedFromAbove, SingleBlock, DeclareOpInterfaceMethods<PlacedAtUseInterface, ["isPlacedAtUse"]>]> {
  let summary = "Starts a collective";
  let description = [{
    The region holds one collective of the operand. The operand's buffer belongs
    to the runtime until the `dist.wait` of the result. Not pure: all ranks must
    start collectives in the same order.

    Life: made by schedule from every collective; becomes a runtime call in plan.

    Constraints:
    - (C1) the region has one argument of the operand's type and holds one collective of that argument and a `dist.yield` of its result.
    - (C2) the result is pending of the collective's result type.
    - (C3) the result has exactly one use, a `dist.wait` in the same block.

    Example:
    ```mlir
    %p = dist.start %0 : tensor<f32> -> !dist.pending<tensor<f32>> {
    ^bb0(%a: tensor<f32>):
      %r = dist.all_reduce sum %a over "fsdp" : tensor<f32>
      dist.yield %r : tensor<f32>
    }
    %1 = dist.wait %p : !dist.pending<tensor<f32>>
    ```
  }];
  let arguments = (ins Dist_Tensor:$input);
  let results = (outs Dist_PendingType:$pending);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` qualified(type($pending)) $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The collective that is started.
    ::shale::CollectiveOpInterface getCollective();
    /// Returns the op that waits for the collective.
    WaitOp getWait();
  }];
}

def Dist_WaitOp : Dist_Op<"wait", [DeclareOpInterfaceMethods<PlacedAtUseInterface>,
    TypesMatchWith<"what is pending", "pending", "result", "::llvm::cast<PendingType>($_self).getType()">]> {
  let summary = "Waits for a collective";
  let description = [{
    The result is that of the collective that `dist.start` started.

    Life: as `dist.start`.

    Constraints:
    - (C1) the operand is the result of a `dist.start`.

    Example: see `dist.start`.
  }];
  let arguments = (ins Dist_PendingType:$pending);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$pending attr-dict `:` qualified(type($pending))";
  let hasVerifier = 1;
}

def Dist_YieldOp : Dist_Op<"yield", [Pure, Terminator, ReturnLike, HasParent<"StartOp">]> {
  let summary = "Ends the region of a started collective";
  let description = [{ Life: as `dist.start`. }];
  let arguments = (ins Dist_Tensor:$result);
  let assemblyFormat = "$result attr-dict `:` type($result)";
}

#endif // SHALE_DIST_ASYNC_TD
