//===- Passes.td - The order of the step ----------------------------------===//
#ifndef SHALE_SCHEDULE_PASSES_TD
#define SHALE_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def SplitCollectivesPass : Pass<"shale-split-collectives", "::mlir::ModuleOp"> {
  let summary = "Split each collective into start and wait";
  let description = [{
    Every op of interface `Collective` becomes `dist.start` and `dist.wait`, side by side. Ops without uses are erased. The
    passes that follow move starts up and waits down.
  }];
  let dependentDialects = ["::shale::dist::DistDialect"];
}

def OrderOpsPass : Pass<"shale-order-ops", "::mlir::ModuleOp"> {
  let summary = "Order ops to lower the sum of live bytes";
  let description = [{
    The order is the program's, refined. Views, and ops whose result is larger than what they read, move to their first use. An
    op that makes memory is delayed past ops that free some where that lowers the largest sum of live bytes between its two
    places: the gradient of a gathered weight is made after the last read of the weight. A reduction and the packing of its
    operand move to where the last gradient is complete.

    Assumes split collectives.
  }];
}

def BucketReductionsPass : Pass<"shale-bucket-reductions", "::mlir::ModuleOp"> {
  let summary = "Reduce packed gradients in buckets";
  let description = [{
    Packed gradients of one type are reduced in buckets, in the order in which they are complete. A bucket is closed when it has
    `bucket-size` bytes; a gradient of as many bytes is a bucket of its own. A bucket starts when it is complete and is waited
    for before the next one starts, so that at most two buckets of packed gradients are live. With `order=memory` it is waited
    for before a gradient of the next one is made, so that one is live. With strategy `optimizer` all buckets start when the
    backward pass is over.

    Assumes the order of `--shale-order-ops`.
  }];
  let options = [
    Option<"bucketSize", "bucket-size", "int64_t", "0", "Bytes of gradients reduced together; 0: those of a unit">,
    Option<"order", "order", "std::string", "\"overlap\"",
           "overlap: a bucket is reduced while the next one is made; memory: before that">
  ];
}

def PrefetchGathersPass : Pass<"shale-prefetch-gathers", "::mlir::ModuleOp"> {
  let summary = "Start all-gathers of units ahead of use";
  let description = [{
    The gather of a unit starts when the unit before it comes into use (`prefetch` units ahead), unless more than
    `max-gathers-in-flight` units would be whole or on their way at once. What makes its shard moves with it.

    Assumes that each gather stands at its use, where `--shale-order-ops` puts it.
  }];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", "1", "Units gathered ahead of use">,
    Option<"maxGathersInFlight", "max-gathers-in-flight", "int64_t", "2",
           "Units whole or on their way at once, prefetched ones included">
  ];
}

def ScheduleTransfersPass : Pass<"shale-schedule-transfers", "::mlir::ModuleOp"> {
  let summary = "Start copies between host and device memory early, wait for them late";
  let description = [{
    `mem.offload` and `mem.reload` become `mem.start` and `mem.wait`. A copy that leaves the device starts when its operand is
    complete and is waited for when the next such copy starts. A copy that is wanted soon starts one reader ahead, unless
    `prefetch` is 0, and no copy makes more than `max-gathers-in-flight` units whole at once.
  }];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", "1", "0: copies start at their use">,
    Option<"maxGathersInFlight", "max-gathers-in-flight", "int64_t", "2", "Units whole or on their way at once">
  ];
  let dependentDialects = ["::shale::dist::DistDialect", "::shale::mem::MemDialect"];
}

def VerifyScheduledPass : Pass<"shale-verify-scheduled", "::mlir::ModuleOp"> {
  let summary = "Exit contract of schedule: every collective is started and waited for";
}

#endif // SHALE_SCHEDULE_PASSES_TD
