//===- FileTraining.cpp - What a file says about its training -------------===//
#include "lib/Frontend/ONNX/Training/FileTraining.h"
#include "dialects/nn/NN.h"
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Artifacts/Artifacts.h"
#include "lib/Frontend/ONNX/ImportContext.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

bool FileOptimizer::hasSettingsOf(const FileOptimizer &other) const {
  auto pair = [](const FileOptimizer &o) {
    return o.counter ? std::pair(o.counter->first, o.counter->step) : std::pair<int64_t, int64_t>();
  };
  return kind == other.kind && fixed == other.fixed && defaults == other.defaults &&
         rateInput == other.rateInput && counter.has_value() == other.counter.has_value() &&
         pair(*this) == pair(other);
}

FailureOr<std::optional<FileTraining>> onnx::completeGraph(ImportContext &context,
                                                           const Artifacts *artifacts) {
  if (!artifacts) {
    if (context.model.proto().training_info_size() > 0 && failed(mergeAlgorithm(context)))
      return failure();
    return std::optional<FileTraining>();
  }
  FailureOr<FileTraining> read = readArtifacts(context, context.model, *artifacts);
  if (failed(read))
    return failure();
  return std::optional(std::move(*read));
}

LogicalResult onnx::checkTrainingFlags(ImportContext &context, const FileTraining &training) {
  const ImportOptions &options = context.options;
  auto contradicts = [&](StringRef flag, StringRef value, const Twine &file) -> LogicalResult {
    return context.error("--" + flag + " " + displayName(value) + " contradicts the file, whose " +
                             training.origin + " " + file + ": leave the flag out",
                         SHALE_EXIT_USAGE);
  };
  std::string loss = "has the loss '" + displayName(training.loss) + "'";
  if (!options.loss.empty())
    return contradicts("loss", options.loss, loss);
  if (!options.lossOutput.empty() && options.lossOutput != training.loss)
    return contradicts("loss-output", options.lossOutput, loss);
  if (!options.gradients.empty())
    return contradicts("gradient",
                       options.gradients.front().first + "=" + options.gradients.front().second,
                       "computes its gradients");
  if (!options.parameters.freeze.empty())
    return contradicts("freeze", options.parameters.freeze, "says which parameters are trained");
  return success();
}

void onnx::describeOptimizer(ImportContext &context, const FileOptimizer &optimizer) {
  Builder &builder = context.builder;
  ModuleOp module = context.module;
  auto dictionary = [&](const std::map<std::string, double> &values) {
    SmallVector<NamedAttribute> entries;
    for (const auto &[name, value] : values)
      entries.push_back(builder.getNamedAttr(name, builder.getF64FloatAttr(value)));
    return builder.getDictionaryAttr(entries);
  };
  module->setAttr(nn::kOptimizerAttr, builder.getStringAttr(optimizer.kind->name));
  module->setAttr(nn::kHypersAttr, dictionary(optimizer.fixed));
  if (!optimizer.defaults.empty())
    module->setAttr(nn::kHyperDefaultsAttr, dictionary(optimizer.defaults));
  if (optimizer.counter)
    module->setAttr(nn::kCounterAttr, builder.getDenseI64ArrayAttr(
                                          {optimizer.counter->first, optimizer.counter->step}));
}
