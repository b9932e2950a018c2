//===- FileTraining.cpp - What a file says about its training -------------===//
#include "lib/Frontend/ONNX/Training/FileTraining.h"
#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/Artifacts/Artifacts.h"
#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Scope.h"
#include "llvm/Support/FormatVariadic.h"

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

std::string FileOptimizer::fix(StringRef attribute, StringRef name, double value) {
  const nn::HyperParameter *hyper = kind->find(name);
  if (!(value >= hyper->low && value <= hyper->high) ||
      (hyper->highExcluded && value == hyper->high))
    return say("attribute {} is {}, not from {}",
               {attribute, plain(llvm::formatv("{0}", value).str()),
                plain(llvm::formatv("{0} to {1}{2}", hyper->low,
                                    hyper->highExcluded ? "below " : "", hyper->high)
                          .str())});
  fixed[name.str()] = value;
  return "";
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
    return context.usage("--" + flag + " " + displayName(value) + " contradicts the file, whose " +
                         training.origin + " " + file + ": leave the flag out");
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
    NamedAttrList entries;
    for (const auto &[name, value] : values)
      entries.append(name, builder.getF64FloatAttr(value));
    return entries.getDictionary(context.mlirContext());
  };
  module->setAttr(nn::kOptimizerAttr, builder.getStringAttr(optimizer.kind->name));
  module->setAttr(nn::kHypersAttr, dictionary(optimizer.fixed));
  if (!optimizer.defaults.empty())
    module->setAttr(nn::kHyperDefaultsAttr, dictionary(optimizer.defaults));
  if (optimizer.counter)
    module->setAttr(nn::kCounterAttr, builder.getDenseI64ArrayAttr(
                                          {optimizer.counter->first, optimizer.counter->step}));
}

/// Returns the first name that `algorithm` defines and `graph` has already; empty if there is none.
static std::string clash(const GraphProto &graph, const GraphProto &algorithm) {
  llvm::StringSet<> names;
  forEachDefined(graph, [&](StringRef name) { names.insert(name); });
  std::string first;
  forEachDefined(algorithm, [&](StringRef name) {
    if (first.empty() && names.contains(name))
      first = name.str();
  });
  return first;
}

LogicalResult onnx::mergeAlgorithm(ImportContext &context) {
  ModelProto &proto = context.model.mutableProto();
  if (proto.training_info_size() > 1)
    return context.error(
        "training_info has {} steps, of which each update reads the results of the ones before: Shale trains files with one",
        proto.training_info_size());
  const TrainingInfoProto &info = proto.training_info(0);
  if (info.algorithm().node_size() == 0)
    return context.error("training_info has no algorithm, so that no step changes anything");
  GraphProto &graph = *proto.mutable_graph();
  if (std::string name = clash(graph, info.algorithm()); !name.empty())
    return context.error("training_info: the algorithm defines {}, which the graph has already",
                         name);
  const GraphProto &algorithm = info.algorithm();
  graph.mutable_input()->MergeFrom(algorithm.input());
  graph.mutable_initializer()->MergeFrom(algorithm.initializer());
  graph.mutable_node()->MergeFrom(algorithm.node());
  graph.mutable_output()->MergeFrom(algorithm.output());
  graph.mutable_value_info()->MergeFrom(algorithm.value_info());
  graph.mutable_sparse_initializer()->MergeFrom(algorithm.sparse_initializer());
  return success();
}
