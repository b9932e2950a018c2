//===- Passes.td - Passes of the schedule stage ---------------------------===//
#ifndef SHALE_SCHEDULE_PASSES_TD
#define SHALE_SCHEDULE_PASSES_TD

include "lib/Options/Options.td"
include "mlir/Pass/PassBase.td"

def SplitCollectivesPass : Pass<"shale-split-collectives", "::mlir::ModuleOp"> {
  let summary = "Splits each collective into start and wait";
  let description = [{
    Every op of interface `CollectiveOpInterface` becomes `dist.start` and `dist.wait`, side by side. Ops without uses are erased. The
    passes that follow move starts up and waits down.

    Before:

    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    func.func @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
      %sum = dist.all_reduce sum %x over "fsdp" : tensor<4xf32>
      return %sum : tensor<4xf32>
    }
    ```

    After:

    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    func.func @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
      %pending = dist.start %x : tensor<4xf32> -> !dist.pending<tensor<4xf32>> {
      ^bb0(%sent: tensor<4xf32>):
        %reduced = dist.all_reduce sum %sent over "fsdp" : tensor<4xf32>
        dist.yield %reduced : tensor<4xf32>
      }
      %sum = dist.wait %pending : !dist.pending<tensor<4xf32>>
      return %sum : tensor<4xf32>
    }
    ```
  }];
  let dependentDialects = ["::shale::dist::DistDialect"];
}

def OrderOpsPass : Pass<"shale-order-ops", "::mlir::ModuleOp"> {
  let summary = "Orders ops to lower the sum of live bytes";
  let description = [{
    Refines the order of the program. Views, and ops whose result is larger than what they read, move to their first use. An op
    that allocates memory is delayed past ops that free memory if that lowers the largest sum of live bytes between its old and
    its new place: the gradient of a gathered weight is computed after the last read of the weight. A reduction and the packing
    of its operand move to where the last gradient is complete.

    Assumes split collectives.

    The cast has a larger result than operand and moves to its use. The gradient of the weight is computed when the weight is no
    longer live.

    Before:

    ```mlir
    func.func @backward(%x: tensor<4x8xf32>, %y: tensor<4x16xf32>, %stored: tensor<8x16xbf16>)
        -> (tensor<4x8xf32>, tensor<8x16xf32>) {
      %weight = nn.cast %stored : tensor<8x16xbf16> -> tensor<8x16xf32>
      %dy = nn.tanh %y : tensor<4x16xf32>
      %dweight = nn.matmul %x, %dy transpose_lhs : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
      %dx = nn.matmul %dy, %weight transpose_rhs : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
      return %dx, %dweight : tensor<4x8xf32>, tensor<8x16xf32>
    }
    ```

    After:

    ```mlir
    func.func @backward(%x: tensor<4x8xf32>, %y: tensor<4x16xf32>, %stored: tensor<8x16xbf16>)
        -> (tensor<4x8xf32>, tensor<8x16xf32>) {
      %dy = nn.tanh %y : tensor<4x16xf32>
      %weight = nn.cast %stored : tensor<8x16xbf16> -> tensor<8x16xf32>
      %dx = nn.matmul %dy, %weight transpose_rhs : (tensor<4x16xf32>, tensor<8x16xf32>) -> tensor<4x8xf32>
      %dweight = nn.matmul %x, %dy transpose_lhs : (tensor<4x8xf32>, tensor<4x16xf32>) -> tensor<8x16xf32>
      return %dx, %dweight : tensor<4x8xf32>, tensor<8x16xf32>
    }
    ```
  }];
}

def BucketReductionsPass : Pass<"shale-bucket-reductions", "::mlir::ModuleOp"> {
  let summary = "Reduces packed gradients in buckets";
  let description = [{
    Packed gradients of one type are reduced in buckets, in the order in which they are complete. A bucket is closed when it has
    `bucket-size` bytes; a gradient of as many bytes is a bucket of its own. A bucket starts when it is complete and is waited
    for before the next one starts, so that at most two buckets of packed gradients are live. With `order=memory` it is waited
    for before a gradient of the next one is computed, so that only one is live. With strategy `optimizer` all buckets start
    when the backward pass is over. An exchange of words of 8-bit integers is a reduction, too: what follows from it, such as the exchange
    of the sum over another axis, is delayed to where the next bucket starts.

    Assumes the order of `--shale-order-ops`.

    Two gradients of 64 bytes form one bucket of 128 bytes. Their reductions start side by side.

    Before (with `bucket-size=128`):

    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @a on @mesh["fsdp"] groups = [
      #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16,
                  segments = [#dist.segment<@w, offset = 0, shape = [4, 4]>]>]
    dist.unit @b on @mesh["fsdp"] groups = [
      #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16,
                  segments = [#dist.segment<@v, offset = 0, shape = [4, 4]>]>]
    func.func @backward(%dv: tensor<4x4xf32>, %x: tensor<4x4xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
      %packed_v = dist.unit_pack @b[0] [@v](%dv) : (tensor<4x4xf32>) -> tensor<16xf32>
      %pending_v = dist.start %packed_v : tensor<16xf32> -> !dist.pending<tensor<8xf32>> {
      ^bb0(%sent: tensor<16xf32>):
        %sum = dist.reduce_scatter sum %sent over "fsdp" dim = 0 : tensor<16xf32> -> tensor<8xf32>
        dist.yield %sum : tensor<8xf32>
      }
      %dw = nn.tanh %x : tensor<4x4xf32>
      %packed_w = dist.unit_pack @a[0] [@w](%dw) : (tensor<4x4xf32>) -> tensor<16xf32>
      %pending_w = dist.start %packed_w : tensor<16xf32> -> !dist.pending<tensor<8xf32>> {
      ^bb0(%sent: tensor<16xf32>):
        %sum = dist.reduce_scatter sum %sent over "fsdp" dim = 0 : tensor<16xf32> -> tensor<8xf32>
        dist.yield %sum : tensor<8xf32>
      }
      %sum_v = dist.wait %pending_v : !dist.pending<tensor<8xf32>>
      %sum_w = dist.wait %pending_w : !dist.pending<tensor<8xf32>>
      return %sum_v, %sum_w : tensor<8xf32>, tensor<8xf32>
    }
    ```

    After:

    ```mlir
    ...
      %0 = dist.unit_pack @b[0] [@v](%arg0) : (tensor<4x4xf32>) -> tensor<16xf32>
      %1 = nn.tanh %arg1 : tensor<4x4xf32>
      %2 = dist.unit_pack @a[0] [@w](%1) : (tensor<4x4xf32>) -> tensor<16xf32>
      %3 = dist.start %0 {dist.bucket = 0 : i64} : tensor<16xf32> -> !dist.pending<tensor<8xf32>> {
      ...
      %4 = dist.start %2 {dist.bucket = 0 : i64} : tensor<16xf32> -> !dist.pending<tensor<8xf32>> {
      ...
      %5 = dist.wait %3 : !dist.pending<tensor<8xf32>>
      %6 = dist.wait %4 : !dist.pending<tensor<8xf32>>
      return %5, %6 : tensor<8xf32>, tensor<8xf32>
    }
    ...
    ```
  }];
  let options = FlagsOf<"shale-bucket-reductions">.options;
}

def PrefetchGathersPass : Pass<"shale-prefetch-gathers", "::mlir::ModuleOp"> {
  let summary = "Starts all-gathers of units ahead of use";
  let description = [{
    The gather of a unit starts when the previous unit is first used (`prefetch` units ahead), unless more than
    `max-gathers-in-flight` units would be whole or in flight at once. The ops that produce its shard move with it.
    Groups of a unit that are used together start together. Their gathers have one `dist.bucket`: they are one exchange.

    Assumes that each gather is placed at its use, as by `--shale-order-ops`.

    Unit `b` is gathered while unit `a` is in use.

    Before:

    ```mlir
    #group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @a on @mesh["fsdp"] groups = [#group]
    dist.unit @b on @mesh["fsdp"] groups = [#group]
    func.func @forward(%x: tensor<16xf32>, %shard_a: tensor<8xf32>, %shard_b: tensor<8xf32>) -> tensor<16xf32> {
      %pending_a = dist.start %shard_a : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
      ^bb0(%sent: tensor<8xf32>):
        %whole = dist.unit_gather %sent @a[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
        dist.yield %whole : tensor<16xf32>
      }
      %a = dist.wait %pending_a : !dist.pending<tensor<16xf32>>
      %y = nn.mul %x, %a : tensor<16xf32>
      %pending_b = dist.start %shard_b : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
      ^bb0(%sent: tensor<8xf32>):
        %whole = dist.unit_gather %sent @b[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
        dist.yield %whole : tensor<16xf32>
      }
      %b = dist.wait %pending_b : !dist.pending<tensor<16xf32>>
      %z = nn.mul %y, %b : tensor<16xf32>
      return %z : tensor<16xf32>
    }
    ```

    After:

    ```mlir
    ...
      %1 = dist.wait %0 : !dist.pending<tensor<16xf32>>
      %2 = dist.start %arg2 : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
      ^bb0(%arg3: tensor<8xf32>):
        %6 = dist.unit_gather %arg3 @b[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
        dist.yield %6 : tensor<16xf32>
      }
      %3 = nn.mul %arg0, %1 : tensor<16xf32>
      %4 = dist.wait %2 : !dist.pending<tensor<16xf32>>
      %5 = nn.mul %3, %4 : tensor<16xf32>
      return %5 : tensor<16xf32>
    }
    ...
    ```
  }];
  let options = FlagsOf<"shale-prefetch-gathers">.options;
}

def ScheduleTransfersPass : Pass<"shale-schedule-transfers", "::mlir::ModuleOp"> {
  let summary = "Starts copies between host and device memory early and waits for them late";
  let description = [{
    `mem.offload` and `mem.reload` become `mem.start` and `mem.wait`. A copy to the host starts when its operand is complete and
    is waited for when the next such copy starts. A copy that is read soon starts one reader ahead, unless `prefetch` is 0 or
    more than `max-gathers-in-flight` units would be whole or in flight at once.

    `a` is copied to the host while `b` is computed, and back while `db` is computed.

    Before:

    ```mlir
    func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %a = nn.exp %x : tensor<4x4xf32>
      %a_host = mem.offload %a : tensor<4x4xf32>
      %b = nn.tanh %a : tensor<4x4xf32>
      %b_host = mem.offload %b : tensor<4x4xf32>
      %c = nn.sqrt %b : tensor<4x4xf32>
      %b_again = mem.reload %b_host : tensor<4x4xf32>
      %db = nn.mul %c, %b_again : tensor<4x4xf32>
      %a_again = mem.reload %a_host : tensor<4x4xf32>
      %da = nn.mul %db, %a_again : tensor<4x4xf32>
      return %da : tensor<4x4xf32>
    }
    ```

    After:

    ```mlir
    func.func @step(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %a = nn.exp %x : tensor<4x4xf32>
      %a_leaving = mem.start %a to host : tensor<4x4xf32> -> !dist.pending<tensor<4x4xf32>>
      %b = nn.tanh %a : tensor<4x4xf32>
      %a_host = mem.wait %a_leaving : !dist.pending<tensor<4x4xf32>> -> tensor<4x4xf32>
      %b_leaving = mem.start %b to host : tensor<4x4xf32> -> !dist.pending<tensor<4x4xf32>>
      %c = nn.sqrt %b : tensor<4x4xf32>
      %b_host = mem.wait %b_leaving : !dist.pending<tensor<4x4xf32>> -> tensor<4x4xf32>
      %b_coming = mem.start %b_host to device : tensor<4x4xf32> -> !dist.pending<tensor<4x4xf32>>
      %a_coming = mem.start %a_host to device : tensor<4x4xf32> -> !dist.pending<tensor<4x4xf32>>
      %b_again = mem.wait %b_coming : !dist.pending<tensor<4x4xf32>> -> tensor<4x4xf32>
      %db = nn.mul %c, %b_again : tensor<4x4xf32>
      %a_again = mem.wait %a_coming : !dist.pending<tensor<4x4xf32>> -> tensor<4x4xf32>
      %da = nn.mul %db, %a_again : tensor<4x4xf32>
      return %da : tensor<4x4xf32>
    }
    ```
  }];
  let options = FlagsOf<"shale-schedule-transfers">.options;
  let dependentDialects = ["::shale::dist::DistDialect", "::shale::mem::MemDialect"];
}

def VerifyScheduledPass : Pass<"shale-verify-scheduled", "::mlir::ModuleOp"> {
  let summary = "Exit contract of schedule: every collective is started and waited for";
  let description = [{
    Fails where a collective does not stand in a `dist.start`, and where a `mem.offload` or `mem.reload` is left.

    Fails where a unit is gathered or copied ahead of its use although more than `max-gathers-in-flight` units are whole or in
    flight. More may be whole only if all of them are in use: a kernel reads several units, or units stay whole.

    Refused:

    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    func.func @sum(%x: tensor<4xf32>) -> tensor<4xf32> {
      %sum = dist.all_reduce sum %x over "fsdp" : tensor<4xf32>
      return %sum : tensor<4xf32>
    }
    ```

    with "is not scheduled: it must be inside a dist.start".
  }];
  let options = FlagsOf<"shale-verify-scheduled">.options;
}

#endif // SHALE_SCHEDULE_PASSES_TD
