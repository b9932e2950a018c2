//===- FileTraining.cpp - What a file says about its training -------------===//
#include "lib/Frontend/ONNX/Training/FileTraining.h"
#include "dialects/nn/Ops/Constant.h"
#include "lib/Frontend/ONNX/Artifacts/Artifacts.h"
#include "lib/Frontend/ONNX/Building.h"
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
  GraphProto steps = algorithm; // the name and the metadata of the graph are the model's
  steps.clear_name();
  steps.clear_metadata_props();
  proto.mutable_graph()->MergeFrom(steps);
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

//===----------------------------------------------------------------------===//
// Initial values that a file computes
//
// The graph `initialization` of a training_info has no inputs, so the importer computes its
// outputs. Random numbers are drawn here, once: ONNX leaves the generator open.
//===----------------------------------------------------------------------===//

namespace {

uint64_t mix(uint64_t x) { // the finalizer of SplitMix64 (Steele, Lea and Flood 2014)
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// Numbers that depend on a seed and a name only. Integers are summed, so that every host gets the
/// same bits.
class RandomStream {
public:
  RandomStream(float seed, StringRef name) {
    key = mix(llvm::bit_cast<uint32_t>(seed) + 0x9e3779b97f4a7c15ull);
    for (unsigned char c : name)
      key = mix(key ^ c);
  }
  /// From 0 to below 1.
  double uniform() { return double(next() >> 11) * 0x1p-53; }
  /// Approximately normal, mean 0 and deviation 1: the sum of twelve uniform numbers, less 6.
  double normal() {
    uint64_t sum = 0;
    for (int i = 0; i < 12; ++i)
      sum += next() >> 32;
    return (double(sum) - 6.0 * 0xffffffffu) / 4294967296.0;
  }

private:
  uint64_t next() { return mix(key + ++count * 0x9e3779b97f4a7c15ull); }
  uint64_t key = 0, count = 0;
};

/// Maximum bytes of all random initial values.
constexpr int64_t kDrawnLimit = int64_t(256) << 20;

/// Draws the tensor of a RandomNormal or RandomUniform, of at most kDenseInitLimit bytes, and adds
/// its bytes to `drawn`.
LogicalResult draw(ImportContext &context, const NodeProto &node, Scope &scope, int64_t &drawn) {
  bool isNormal = node.op_type() == "RandomNormal";
  NodeAttributes attributes(context, node);
  double first = attributes.value(isNormal ? "mean" : "low").f();
  const AttributeProto *scale = attributes.take(isNormal ? "scale" : "high");
  double second = scale ? scale->f() : 1;
  float seed = attributes.value("seed").f();
  const AttributeProto *dtype = attributes.take("dtype"), *shape = attributes.take("shape");
  if (failed(attributes.finish()))
    return failure();
  std::string why;
  auto element = dyn_cast_or_null<FloatType>(
      elementType(context.mlirContext(), dtype ? int32_t(dtype->i()) : 1, why));
  if (!element)
    return context.errorAt(node, "dtype must be a type of floats");
  if (!shape || llvm::any_of(shape->ints(), [](int64_t size) { return size < 0; }))
    return context.errorAt(node, "shape is missing or negative");
  auto type = RankedTensorType::get(llvm::to_vector<4>(shape->ints()), element);
  int64_t bytes = nn::tensorBytes(type);
  if (bytes < 0 || bytes > nn::kDenseInitLimit)
    return context.errorAt(node, "draws more than {} MiB: store the initial values in the file",
                           nn::kDenseInitLimit >> 20);
  drawn += bytes;
  if (drawn > kDrawnLimit)
    return context.errorAt(
        node,
        "draws, with the nodes before it, more than {} MiB: store the initial values in the file",
        kDrawnLimit >> 20);
  RandomStream stream(seed, node.output(0));
  SmallVector<APFloat> values;
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i) {
    bool inexact;
    values.emplace_back(isNormal ? first + second * stream.normal()
                                 : first + (second - first) * stream.uniform());
    values.back().convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
  }
  scope.values[node.output(0)].value = nn::ConstantOp::create(
      context.builder, context.builder.getUnknownLoc(), DenseElementsAttr::get(type, values));
  return success();
}

/// Binds initializers to the outputs of the graph, which are in `scope`.
FailureOr<InitialValues> bind(ImportContext &context, const TrainingInfoProto &info,
                              const Scope &scope, ConstantFolder &folder) {
  InitialValues values;
  llvm::StringSet<> outputs = namesOf(info.initialization().output());
  for (const StringStringEntryProto &entry : info.initialization_binding()) {
    const std::string &key = entry.key(), &value = entry.value();
    const TensorProto *tensor = context.definitions.initializers.lookup(key);
    if (!tensor)
      return context.error("initialization_binding: {} is no initializer", key);
    Value output = scope.values.lookup(value).value;
    if (!outputs.contains(value) || !output)
      return context.error(
          "initialization_binding: {} is bound to {}, which is no output of the graph 'initialization'",
          key, value);
    DenseElementsAttr constant = folder.constantOf(output);
    auto type = context.model.type(context.mlirContext(), *tensor);
    if (!type)
      return context.error("initializer {}: {}", key, type.takeError());
    if (!constant)
      return context.error(
          "initialization_binding: {} is too large to be computed: store the initial values in the file",
          value);
    if (constant.getType() != *type)
      return context.error(
          "initialization_binding: {} and {}, to which it is bound, have different types", key,
          value);
    if (!constant.isSplat() && nn::tensorBytes(*type) > nn::kDenseInitLimit)
      return context.error(
          "initialization_binding: {} has more than {} MiB: store the initial values in the file",
          key, nn::kDenseInitLimit >> 20);
    if (!values.try_emplace(key, constant).second)
      return context.error("initialization_binding: {} is bound twice", key);
  }
  return values;
}

} // namespace

FailureOr<InitialValues> onnx::computeInitialValues(ImportContext &context, Inputs &inputs,
                                                    ConstantFolder &folder) {
  const TrainingInfoProto &info = context.model.proto().training_info(0);
  if (info.initialization().input_size() > 0)
    return context.error("training_info: the graph 'initialization' has inputs, and nothing "
                         "gives them values");
  if (info.initialization_binding_size() == 0)
    return InitialValues();
  Scope scope;
  scope.opsets = context.scope.opsets;
  scope.path = "in the graph 'initialization', ";
  // The graph reads nothing of the model.
  const States states;
  const InitialValues initial;
  const LostDropout lostDropout;
  Building building(context, inputs, folder, states, initial, lostDropout,
                    /*scopesAreLost=*/false);
  for (const TensorProto &tensor : info.initialization().initializer())
    if (failed(take(building.constantIn(tensor, context.builder.getUnknownLoc()),
                    scope.values[tensor.name()])))
      return failure();
  int64_t drawn = 0;
  for (const NodeProto &node : info.initialization().node()) {
    bool isRandom = (node.op_type() == "RandomNormal" || node.op_type() == "RandomUniform") &&
                    domainOf(node.domain()).empty() && node.output_size() == 1;
    if (failed(isRandom ? draw(context, node, scope, drawn) : building.importNode(node, scope, 0)))
      return failure();
  }
  return bind(context, info, scope, folder);
}
