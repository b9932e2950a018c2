//===- Evaluation.cpp - @evaluate, from @forward --------------------------===//
#include "dialects/nn/Ops/Norm.h"
#include "lib/Support/DeadOps.h"
#include "passes/autodiff/StepBuilder.h"

using namespace mlir;
using namespace shale;

void StepBuilder::makeEvaluate() {
  func::FuncOp function = builder.getFunction();
  for (Operation &op : builder.getBody().without_terminator())
    op.setAttr(nn::kPhaseAttr, nn::PhaseAttr::get(op.getContext(), nn::Phase::Forward));
  auto evaluate = cast<func::FuncOp>(function->clone());
  evaluate.setSymName("evaluate");
  builder.setInsertionPointAfter(function);
  builder.insert(evaluate);
  Block &body = evaluate.getBody().front();
  body.getTerminator()->eraseOperand(0);
  evaluate.setFunctionType(builder.getFunctionType(evaluate.getArgumentTypes(),
                                                   body.getTerminator()->getOperandTypes()));
  evaluate.setAllResultAttrs(ArrayRef({builder.metric("loss_sum"), builder.metric("count")}));
  // Replace random ops by their form for evaluation.
  for (auto random : llvm::make_early_inc_range(body.getOps<StochasticOpInterface>()))
    if (OpBuilder place(random); random.drawsRandom()) {
      random->replaceAllUsesWith(random.buildEvaluation(place));
      random->erase();
    }
  for (auto statistic : llvm::make_early_inc_range(body.getOps<nn::RunningStatisticOp>())) {
    statistic.replaceAllUsesWith(statistic.getRunning());
    statistic.erase();
  }
  eraseDeadOps(body);
  function.setSymName("step");
}
