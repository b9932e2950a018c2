//===- Passes.td - Where the bytes of the step are ------------------------===//
#ifndef SHALE_PLAN_PASSES_TD
#define SHALE_PLAN_PASSES_TD

include "mlir/Pass/PassBase.td"

def PlanPass : Pass<"shale-plan", "::mlir::ModuleOp"> {
  let summary = "Give every value a place: functions of tensors become rt";
  let description = [{
    Assumes a scheduled function. Values that may share bytes become
    one allocation: reshapes, barriers, parameters within their gathered unit,
    results that take the place of an operand that nobody reads again,
    gradients that are produced where their unit is packed, new state where the
    old one was. Allocations get offsets in one arena, best fit in order of
    decreasing size; a collective's buffers are taken from its start to its wait.
    The state block is laid out once for the module.
  }];
  let options = [
    Option<"threads", "threads", "int64_t", "1", "Threads per rank assumed by the memory plan">
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

#endif // SHALE_PLAN_PASSES_TD
