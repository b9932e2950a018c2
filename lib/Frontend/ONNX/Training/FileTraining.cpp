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
  auto settings = [](const FileOptimizer &o) {
    nn::UpdateCounter counter = o.counter.value_or(nn::UpdateCounter{-1, 0}); // -1: none
    return std::tuple(o.kind, o.fixed, o.defaults, o.rateInput, counter.first, counter.step);
  };
  return settings(*this) == settings(other);
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

//===----------------------------------------------------------------------===//
// Attributes of nodes that are not imported
//===----------------------------------------------------------------------===//

const AttributeProto *NodeAttributes::take(StringRef name) {
  for (auto [number, attribute] : llvm::enumerate(node.attribute()))
    if (attribute.name() == name) {
      isTaken.set(number);
      return &attribute;
    }
  return nullptr;
}

double NodeAttributes::number(StringRef name, double missing) {
  const AttributeProto *attribute = take(name);
  return attribute ? attribute->f() : missing;
}

std::vector<std::string> NodeAttributes::strings(StringRef name) {
  const AttributeProto *attribute = take(name);
  return attribute
             ? std::vector<std::string>(attribute->strings().begin(), attribute->strings().end())
             : std::vector<std::string>();
}

FailureOr<bool> NodeAttributes::flag(StringRef name, bool missing) {
  const AttributeProto *attribute = take(name);
  if (attribute && (!attribute->has_i() || (attribute->i() != 0 && attribute->i() != 1)))
    return fail("attribute '" + name + "' must be 0 or 1");
  return attribute ? attribute->i() == 1 : missing;
}

LogicalResult NodeAttributes::set(ArrayRef<Setting> settings, FileOptimizer &optimizer) {
  for (const auto &[name, hyper, missing] : settings) {
    const AttributeProto *attribute = take(name);
    if (!attribute && !missing)
      return fail(Twine("lacks attribute '") + name + "'");
    if (attribute && !attribute->has_f())
      return fail(Twine("attribute '") + name + "' must be a float");
    if (std::string why = optimizer.fix(name, hyper, attribute ? attribute->f() : *missing);
        !why.empty())
      return fail(why);
  }
  return success();
}

LogicalResult NodeAttributes::finish() {
  llvm::StringSet<> names;
  for (auto [number, attribute] : llvm::enumerate(node.attribute())) {
    std::string shown = displayName(attribute.name());
    if (!names.insert(attribute.name()).second)
      return fail("has attribute '" + shown + "' twice");
    if (!isTaken[number])
      return fail("has no attribute '" + shown + "'");
  }
  return success();
}

LogicalResult NodeAttributes::fail(const Twine &message) {
  return context.errorAt(node, where + message);
}

//===----------------------------------------------------------------------===//
// The step in the module and the graph
//===----------------------------------------------------------------------===//

bool onnx::contradicts(const TypeProto::Tensor &type, const TensorProto &tensor) {
  if (type.elem_type() != 0 && type.elem_type() != tensor.data_type())
    return true;
  if (!type.has_shape())
    return false;
  if (type.shape().dim_size() != tensor.dims_size())
    return true;
  for (auto [dim, size] : llvm::zip(type.shape().dim(), tensor.dims()))
    if (dim.has_dim_value() && dim.dim_value() != size)
      return true;
  return false;
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

/// Appends the algorithm of a model's `training_info` to its graph, which is then the graph of a
/// training step. Fails, with an error, if a name of the algorithm is in the graph already.
static LogicalResult mergeAlgorithm(ImportContext &context) {
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

FailureOr<std::optional<FileTraining>> onnx::completeGraph(ImportContext &context,
                                                           const Artifacts *artifacts) {
  std::optional<FileTraining> training;
  if (artifacts
          ? failed(take(readArtifacts(context, context.model, *artifacts), training.emplace()))
          : context.model.proto().training_info_size() > 0 && failed(mergeAlgorithm(context)))
    return failure();
  return training;
}
