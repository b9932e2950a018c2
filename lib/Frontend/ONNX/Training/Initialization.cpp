//===- Initialization.cpp - Initial values that a file computes -----------===//
//
// The graph `initialization` of a training_info has no inputs, so the importer computes its
// outputs. Random numbers are drawn here, once: ONNX leaves the generator open.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "lib/Frontend/ONNX/Building.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

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
    uint32_t bits;
    memcpy(&bits, &seed, sizeof(bits));
    key = mix(bits + 0x9e3779b97f4a7c15ull);
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

/// Draws the tensor of a RandomNormal or RandomUniform. At most kDenseInitLimit bytes.
FailureOr<DenseElementsAttr> draw(ImportContext &context, const NodeProto &node) {
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
  RandomStream stream(seed, node.output(0));
  SmallVector<APFloat> values;
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i) {
    bool inexact;
    values.emplace_back(isNormal ? first + second * stream.normal()
                                 : first + (second - first) * stream.uniform());
    values.back().convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
  }
  return DenseElementsAttr::get(type, values);
}

/// Maximum bytes of all random initial values.
constexpr int64_t kDrawnLimit = int64_t(256) << 20;

/// Computes the nodes of the graph; their values are in `scope` then.
LogicalResult compute(ImportContext &context, Building &building, const GraphProto &graph,
                      Scope &scope) {
  Location unknown = context.builder.getUnknownLoc();
  for (const TensorProto &tensor : graph.initializer())
    if (failed(take(building.constantIn(tensor, unknown), scope.values[tensor.name()])))
      return failure();
  int64_t drawn = 0;
  for (const NodeProto &node : graph.node()) {
    bool random = (node.op_type() == "RandomNormal" || node.op_type() == "RandomUniform") &&
                  domainOf(node.domain()).empty() && node.output_size() == 1;
    if (!random) {
      if (failed(building.importNode(node, scope, 0)))
        return failure();
      continue;
    }
    FailureOr<DenseElementsAttr> values = draw(context, node);
    if (failed(values))
      return failure();
    drawn += nn::tensorBytes(cast<RankedTensorType>(values->getType()));
    if (drawn > kDrawnLimit)
      return context.errorAt(
          node,
          "draws, with the nodes before it, more than {} MiB: store the initial values in the file",
          kDrawnLimit >> 20);
    scope.values[node.output(0)].value = nn::ConstantOp::create(context.builder, unknown, *values);
  }
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
  if (failed(compute(context, building, info.initialization(), scope)))
    return failure();
  return bind(context, info, scope, folder);
}
