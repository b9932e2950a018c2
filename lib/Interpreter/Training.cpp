//===- Training.cpp - Runs training steps in the interpreter --------------===//
#include "lib/Interpreter/Training.h"
#include "dialects/nn/Optimizers.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;

namespace shale::interp {

/// Sets the hyper-parameters. `updates` is the number of previous steps that were not skipped.
/// `optimizer` may be null: then only the hyper-parameters that the options name are set. A value
/// that the model file fixes replaces that of the options.
static void setHypers(const TrainingOptions &options, const nn::Optimizer *optimizer,
                      const nn::FileSettings &file, int64_t updates, LogicalValues &values) {
  auto set = [&](StringRef name, double value) {
    Tensor scalar = Tensor::scalar(Element::F32, value);
    scalar.roundToElement();
    values.set(name, scalar);
  };
  set("lr", file.fixed("lr").value_or(options.lr));
  for (auto &[name, value] : options.hypers)
    set(name, value);
  if (!optimizer)
    return;
  auto flag = [&](StringRef name) {
    auto given = options.hypers.find(name);
    return given != options.hypers.end() && !file.fixed(name) ? given->second
                                                              : file.value(*optimizer->find(name));
  };
  for (const nn::HyperParameter *hyper : nn::getHyperParameters(*optimizer)) {
    if (hyper->source == nn::HyperSource::LearningRate)
      continue;
    if (hyper->source == nn::HyperSource::OwnRate) { // the rate is constant here
      double own = flag(hyper->text);
      set(hyper->name, own != 0 ? own : file.fixed("lr").value_or(options.lr));
      continue;
    }
    nn::UpdateCounter counter = file.counter(*hyper);
    bool isFlag = hyper->source == nn::HyperSource::Flag;
    double base = isFlag || !hyper->text.empty() ? flag(isFlag ? hyper->name : hyper->text) : 0;
    set(hyper->name, hyper->derived(base, double(counter.first) + double(counter.step) * updates));
  }
}

/// Sets the inputs of a call: slice `batch` of each tensor of the batches, and the
/// scalars of random ops.
static LogicalResult setInputs(ModuleOp module, const TrainingOptions &options, int64_t batch,
                               int64_t step, int64_t microbatch, LogicalValues &values) {
  auto scalar = [](int64_t value) {
    Tensor tensor(Element::I64, ArrayRef<int64_t>{});
    tensor.mutableInts()[0] = value;
    return tensor;
  };
  values.set("random.seed", scalar(options.seed));
  values.set("random.step", scalar(step));
  values.set("random.microbatch", scalar(microbatch));
  for (const auto &[name, all] : options.batches) {
    if (all.rank() == 0 || batch >= all.dim(0))
      return module.emitError("the batches of '") << name << "' end before step " << step;
    values.set(name, all.slice(0, batch, 1).reshaped(all.shape().drop_front()));
  }
  return success();
}

LogicalResult train(ModuleOp module, const TrainingOptions &options, raw_ostream &log,
                    NamedTensors &state) {
  const nn::Optimizer *optimizer = nn::getOptimizer(module);
  const nn::FileSettings file(module);
  const ProgramAdapter &adapter = getAdapter(module);
  Options settings = options.interpreter;
  settings.ranks = adapter.rankCount(module, options.ranks);
  Interpreter interpreter(settings);
  LogicalValues values(options.seed);
  values.stateFromInit = true;
  values.folder = options.folder;
  auto count = module->getAttrOfType<IntegerAttr>(nn::kAccumulateAttr);
  int64_t microbatches = count ? count.getInt() : 1;
  // Results with the name of a state are fed back; the rest are metrics.
  auto keep = [&](const LogicalValues &results) {
    NamedTensors next;
    for (auto &[name, value] : results.tensors)
      if (values.find(name))
        next[name] = value;
    for (auto &[name, value] : next)
      values.set(name, value);
    return next;
  };
  int64_t updates = 0;
  for (int64_t step = 0; step < options.steps; ++step) {
    setHypers(options, optimizer, file, updates, values);
    LogicalValues results;
    for (int64_t m = 0; m < microbatches; ++m) {
      if (failed(setInputs(module, options, step * microbatches + m, step, m, values)))
        return failure();
      StringRef function = m + 1 == microbatches ? "step"
                           : m == 0              ? "accumulate_first"
                                                 : "accumulate";
      LogicalValues made;
      if (failed(adapter.run(module, function, interpreter, values, made)))
        return failure();
      if (m + 1 == microbatches)
        results = std::move(made);
      else
        keep(made);
    }
    log << "{\"step\": " << step;
    for (const char *metric : {"loss", "grad_norm"})
      if (const Tensor *value = results.find(metric))
        log << llvm::format(", \"%s\": %.9g", metric, value->number(0));
    const Tensor *enable = results.find("enable");
    updates += !enable || enable->number(0) != 0;
    if (enable)
      log << ", \"enable\": " << (enable->number(0) ? "true" : "false");
    log << "}\n";
    state = keep(results);
    values.seed += 1;
    for (const std::string &name : values.randomInputs)
      values.tensors.erase(name);
    values.randomInputs.clear();
  }
  return success();
}

} // namespace shale::interp
