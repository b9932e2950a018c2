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

template <typename... Parts>
LogicalResult NodeAttributes::fail(const Twine &pattern, Parts &&...parts) {
  return context.errorAt(node, where + pattern, std::forward<Parts>(parts)...);
}

FailureOr<bool> NodeAttributes::flag(StringRef name, bool missing) {
  const AttributeProto *attribute = take(name);
  if (attribute && (!attribute->has_i() || (attribute->i() != 0 && attribute->i() != 1)))
    return fail("attribute {} must be 0 or 1", name);
  return attribute ? attribute->i() == 1 : missing;
}

LogicalResult NodeAttributes::set(ArrayRef<Setting> settings, FileOptimizer &optimizer) {
  auto shown = [](double number) { return plain(llvm::formatv("{0}", number).str()); };
  for (const auto &[name, hyperName, missing] : settings) {
    const AttributeProto *attribute = take(name);
    if (!attribute && !missing)
      return fail("lacks attribute {}", StringRef(name));
    if (attribute && !attribute->has_f())
      return fail("attribute {} must be a float", StringRef(name));
    double value = attribute ? attribute->f() : *missing;
    const nn::HyperParameter &hyper = *optimizer.kind->find(hyperName);
    if (!(value >= hyper.low && value <= hyper.high) || (hyper.highExcluded && value == hyper.high))
      return fail("attribute {} is {}, not from {} to {}{}", StringRef(name), shown(value),
                  shown(hyper.low), hyper.highExcluded ? "below " : "", shown(hyper.high));
    optimizer.fixed[hyperName] = value;
  }
  return success();
}

LogicalResult NodeAttributes::finish() {
  llvm::StringSet<> names;
  for (auto [number, attribute] : llvm::enumerate(node.attribute())) {
    if (!names.insert(attribute.name()).second)
      return fail("has attribute {} twice", attribute.name());
    if (!isTaken[number])
      return fail("has no attribute {}", attribute.name());
  }
  return success();
}

//===----------------------------------------------------------------------===//
// The step in the module and the graph
//===----------------------------------------------------------------------===//

bool onnx::contradicts(const TypeProto::Tensor &type, const TensorProto &tensor) {
  auto mayBe = [](const TensorShapeProto::Dimension &dim, int64_t size) {
    return !dim.has_dim_value() || dim.dim_value() == size;
  };
  return (type.elem_type() != 0 && type.elem_type() != tensor.data_type()) ||
         (type.has_shape() && !llvm::equal(type.shape().dim(), tensor.dims(), mayBe));
}

LogicalResult onnx::checkTrainingFlags(ImportContext &context, const FileTraining &training) {
  const ImportOptions &options = context.options;
  std::string loss = "has the loss '" + displayName(training.loss) + "'", gradient;
  if (!options.gradients.empty())
    gradient = options.gradients.front().first + "=" + options.gradients.front().second;
  const std::array<std::string, 3> flags[] = {
      // the flag, its value, and what the file says
      {"--loss", options.loss, loss},
      {"--loss-output", options.lossOutput == training.loss ? "" : options.lossOutput, loss},
      {"--gradient", gradient, "computes its gradients"},
      {"--freeze", options.parameters.freeze, "says which parameters are trained"}};
  for (const auto &[flag, value, file] : flags)
    if (!value.empty())
      return context.usage("{} {} contradicts the file, whose {} {}: leave the flag out",
                           plain(flag), plain(displayName(value)), plain(training.origin),
                           plain(file));
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

/// Appends the algorithm of a model's `training_info` to its graph, which is then the graph of a
/// training step. Fails, with an error, if a name of the algorithm is in the graph already.
static LogicalResult mergeAlgorithm(ImportContext &context) {
  ModelProto &proto = context.model.mutableProto();
  if (proto.training_info_size() > 1)
    return context.error(
        "training_info has {} steps, of which each update reads the results of the ones before: Shale trains files with one",
        proto.training_info_size());
  const GraphProto &algorithm = proto.training_info(0).algorithm();
  if (algorithm.node_size() == 0)
    return context.error("training_info has no algorithm, so that no step changes anything");
  llvm::StringSet<> names;
  StringRef clash;
  forEachDefined(proto.graph(), [&](StringRef name) { names.insert(name); });
  forEachDefined(algorithm, [&](StringRef name) {
    if (clash.empty() && names.contains(name))
      clash = name;
  });
  if (!clash.empty())
    return context.error("training_info: the algorithm defines {}, which the graph has already",
                         clash);
  proto.mutable_graph()->MergeFrom(algorithm);
  return success();
}

FailureOr<std::optional<FileTraining>> onnx::completeGraph(ImportContext &context,
                                                           const Artifacts *artifacts) {
  if (artifacts)
    return readArtifacts(context, context.model, *artifacts);
  if (context.model.proto().training_info_size() > 0 && failed(mergeAlgorithm(context)))
    return failure();
  return std::optional<FileTraining>();
}
