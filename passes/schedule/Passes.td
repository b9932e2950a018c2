//===- Passes.td - The order of the step, and where its bytes are ---------===//
#ifndef SHALE_SCHEDULE_PASSES_TD
#define SHALE_SCHEDULE_PASSES_TD

include "mlir/Pass/PassBase.td"

def SchedulePass : Pass<"shale-schedule", "::mlir::ModuleOp"> {
  let summary = "Fix the order of ops; split collectives into start and wait";
  let description = [{
    The order is the program's, refined. An op that makes memory is delayed past
    ops that free some where that lowers the largest sum of live bytes between its
    two places: the gradient of a gathered weight is made when the weight was read for
    the last time. Every op of interface `Collective`
    becomes `dist.start` and `dist.wait`. A unit's gather starts when the unit
    before it comes into use (`prefetch` units ahead), unless more than
    `max-gathers-in-flight` units would be whole or on their way at once.
    Packed gradients of one type are reduced in buckets, in the order in which
    they are complete: a bucket is closed when it has `bucket-size` bytes, and a
    gradient that has as many is one by itself. A bucket starts as soon as
    it is complete and is waited for before the next one starts, so that at most
    two buckets of packed gradients wait; with `order=memory` before a gradient of
    the next one is made, so that there is one; with strategy `optimizer` all start when the
    backward pass is over. `mem.offload` and `mem.reload` become `mem.start` and
    `mem.wait`, what is wanted soon one reader ahead. Views and ops whose result is larger than what they
    read stand at their first use.
  }];
  let options = [
    Option<"prefetch", "prefetch", "int64_t", "1", "Units gathered ahead of use">,
    Option<"maxGathersInFlight", "max-gathers-in-flight", "int64_t", "2",
           "Units whole or on their way at once, prefetched ones included">,
    Option<"bucketSize", "bucket-size", "int64_t", "0", "Bytes of gradients that are reduced together; 0: a unit's">,
    Option<"order", "order", "std::string", "\"overlap\"",
           "overlap: a bucket is reduced while the next one is made; memory: before that">
  ];
  let dependentDialects = ["::shale::dist::DistDialect", "::shale::mem::MemDialect"];
}

def VerifyScheduledPass : Pass<"shale-verify-scheduled", "::mlir::ModuleOp"> {
  let summary = "Exit contract of schedule: every collective is started and waited for";
}

def PlanPass : Pass<"shale-plan", "::mlir::ModuleOp"> {
  let summary = "Give every value a place: functions of tensors become rt";
  let description = [{
    Assumes the order of `--shale-schedule`. Values that may share bytes become
    one allocation: reshapes, barriers, parameters within their gathered unit,
    results that take the place of an operand that nobody reads again,
    gradients that are produced where their unit is packed, new state where the
    old one was. Allocations get offsets in one arena, best fit in order of
    decreasing size; a collective's buffers are taken from its start to its wait.
    The state block is laid out once for the module.
  }];
  let options = [
    Option<"threads", "threads", "int64_t", "1", "Threads a rank that the memory plan reckons with">
  ];
  let dependentDialects = ["::shale::rt::RTDialect", "::shale::nn::NNDialect"];
}

def VerifyPlanPass : Pass<"shale-verify-plan", "::mlir::ModuleOp"> {
  let summary = "Exit contract of plan: no two live buffers share bytes, no kernel overwrites what it still reads";
  let description = [{
    Computes from `rt` alone when each arena buffer is live (first access to last; a collective accesses until its wait)
    and fails where two that are live at once overlap, where a buffer is read
    before it is written, and where a collective is never waited for.

    Fails also where a launch writes over bytes of an input. Allowed is the whole buffer of the input that `aliases` of
    the kernel names, where each element of that input is read for the element at its own index only, or by a reduction
    of its own row, which is complete before the row is written. Which elements are read is asked of the ops' element
    maps (`Indexed`) for a sample of elements.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::shale::nn::NNDialect"];
}

#endif // SHALE_SCHEDULE_PASSES_TD
