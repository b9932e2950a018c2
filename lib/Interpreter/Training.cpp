//===- Training.cpp - Runs training steps in the interpreter --------------===//
#include "lib/Interpreter/Training.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;

namespace shale::interp {

static void setHypers(const TrainingOptions &options, int64_t step,
                      LogicalValues &values) {
  auto set = [&](const char *name, double value) {
    Tensor scalar = Tensor::scalar(Element::F32, value);
    scalar.roundToElement();
    values.set(name, scalar);
  };
  set("lr", options.lr);
  set("beta1", options.beta1);
  set("beta2", options.beta2);
  set("eps", options.eps);
  set("weight_decay", options.weightDecay);
  set("momentum", options.momentum);
  set("clip_grad_norm", options.clipGradNorm);
  set("bias1", 1 - std::pow(options.beta1, step + 1));
  set("bias2", 1 - std::pow(options.beta2, step + 1));
}

/// Sets the inputs of a step: slice `step` of each tensor of the batches.
static LogicalResult setInputs(ModuleOp module, const TrainingOptions &options,
                               int64_t step, LogicalValues &values) {
  for (const auto &[name, all] : options.batches) {
    if (all.rank() == 0 || step >= all.dim(0))
      return module.emitError("the batches of '")
             << name << "' end before step " << step;
    values.set(name, all.slice(0, step, 1).reshaped(all.shape().drop_front()));
  }
  return success();
}

LogicalResult train(ModuleOp module, const TrainingOptions &options,
                    raw_ostream &log, NamedTensors &state) {
  const ProgramAdapter &adapter = getAdapter(module);
  Options settings = options.interpreter;
  settings.ranks = adapter.rankCount(module, options.ranks);
  Interpreter interpreter(settings);
  LogicalValues values(options.seed);
  values.stateFromInit = true;
  values.folder = options.folder;
  for (int64_t step = 0; step < options.steps; ++step) {
    setHypers(options, step, values);
    if (failed(setInputs(module, options, step, values)))
      return failure();
    LogicalValues results;
    if (failed(adapter.run(module, "step", interpreter, values, results)))
      return failure();
    log << "{\"step\": " << step;
    for (const char *metric : {"loss", "grad_norm"})
      if (const Tensor *value = results.find(metric))
        log << llvm::format(", \"%s\": %.9g", metric, value->number(0));
    if (const Tensor *enable = results.find("enable"))
      log << ", \"enable\": " << (enable->number(0) ? "true" : "false");
    log << "}\n";
    // What has the name of a state goes back in; the rest are metrics.
    NamedTensors next;
    for (auto &[name, value] : results.tensors)
      if (values.find(name))
        next[name] = value;
    for (auto &[name, value] : next)
      values.set(name, value);
    state = std::move(next);
    values.seed += 1;
    for (const std::string &name : values.randomInputs)
      values.tensors.erase(name);
    values.randomInputs.clear();
  }
  return success();
}

} // namespace shale::interp
