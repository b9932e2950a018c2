//===- Initialization.cpp - Initial values that a file computes -----------===//
//
// The graph `initialization` of a training_info has no inputs, so the importer computes its
// outputs. Random numbers are drawn here, once: ONNX leaves the generator open.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "lib/Frontend/ONNX/Importer.h"
#include "lib/Frontend/ONNX/Training/StepGraph.h"

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

/// The attributes of RandomNormal or RandomUniform.
struct Distribution {
  bool isNormal;
  double first, second; // mean and deviation, or bounds
  float seed = 0;
  int32_t dataType = 1;
  SmallVector<int64_t> shape = {};
};

/// Draws a tensor. At most kDenseInitLimit bytes.
FailureOr<DenseElementsAttr> draw(Importer &importer, const NodeProto &node) {
  bool isNormal = node.op_type() == "RandomNormal";
  Distribution wanted{isNormal, 0, 1};
  bool hasShape = false;
  for (const AttributeProto &attribute : node.attribute()) {
    StringRef name = attribute.name();
    if (name == (isNormal ? "mean" : "low"))
      wanted.first = attribute.f();
    else if (name == (isNormal ? "scale" : "high"))
      wanted.second = attribute.f();
    else if (name == "seed")
      wanted.seed = attribute.f();
    else if (name == "dtype")
      wanted.dataType = int32_t(attribute.i());
    else if (name == "shape") {
      hasShape = true;
      wanted.shape.assign(attribute.ints().begin(), attribute.ints().end());
    } else {
      return importer.errorAt(node, "has no attribute '" + displayName(name) + "'");
    }
  }
  std::string why;
  auto element =
      dyn_cast_or_null<FloatType>(elementType(importer.builder.getContext(), wanted.dataType, why));
  if (!element)
    return importer.errorAt(node, "dtype must be a type of floats");
  if (!hasShape || llvm::any_of(wanted.shape, [](int64_t size) { return size < 0; }))
    return importer.errorAt(node, "shape is missing or negative");
  auto type = RankedTensorType::get(wanted.shape, element);
  int64_t bytes = nn::tensorBytes(type);
  if (bytes < 0 || bytes > nn::kDenseInitLimit)
    return importer.errorAt(node, "draws more than " + Twine(nn::kDenseInitLimit >> 20) +
                                      " MiB: store the initial values in the file");
  RandomStream stream(wanted.seed, node.output(0));
  SmallVector<APFloat> values;
  for (int64_t i = 0, e = type.getNumElements(); i < e; ++i) {
    double value = isNormal ? wanted.first + wanted.second * stream.normal()
                            : wanted.first + (wanted.second - wanted.first) * stream.uniform();
    bool inexact;
    values.emplace_back(value);
    values.back().convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
  }
  return DenseElementsAttr::get(type, values);
}

/// Maximum bytes of all random initial values.
constexpr int64_t kDrawnLimit = int64_t(256) << 20;

/// Computes the nodes of the graph; their values are in `scope` then.
LogicalResult compute(Importer &importer, const GraphProto &graph, Scope &scope) {
  for (const TensorProto &tensor : graph.initializer()) {
    auto data = importer.readConstant(tensor);
    if (!data)
      return importer.error("initialization: initializer '" + displayName(tensor.name()) +
                            "': " + llvm::toString(data.takeError()));
    scope.values[tensor.name()].value =
        nn::ConstantOp::create(importer.builder, importer.builder.getUnknownLoc(), *data);
  }
  int64_t drawn = 0;
  for (const NodeProto &node : graph.node()) {
    bool random = (node.op_type() == "RandomNormal" || node.op_type() == "RandomUniform") &&
                  domainOf(node.domain()).empty() && node.output_size() == 1;
    if (!random) {
      if (failed(importer.importNode(node, scope, 0)))
        return failure();
      continue;
    }
    FailureOr<DenseElementsAttr> values = draw(importer, node);
    if (failed(values))
      return failure();
    drawn += nn::tensorBytes(cast<RankedTensorType>(values->getType()));
    if (drawn > kDrawnLimit)
      return importer.errorAt(node, "draws, with the nodes before it, more than " +
                                        Twine(kDrawnLimit >> 20) +
                                        " MiB: store the initial values in the file");
    scope.values[node.output(0)].value =
        nn::ConstantOp::create(importer.builder, importer.builder.getUnknownLoc(), *values);
  }
  return success();
}

} // namespace

FailureOr<llvm::StringMap<DenseElementsAttr>>
onnx::computeInitialValues(Importer &importer, Model &model,
                           const llvm::StringMap<const TensorProto *> &initializers) {
  const TrainingInfoProto &info = model.proto().training_info(0);
  llvm::StringMap<DenseElementsAttr> values;
  if (info.initialization().input_size() > 0)
    return importer.error("training_info: the graph 'initialization' has inputs, and nothing "
                          "gives them values");
  if (info.initialization_binding_size() == 0)
    return values;
  Scope scope;
  for (const OperatorSetIdProto &opset : model.proto().opset_import())
    scope.opsets[domainOf(opset.domain())] = opset.version();
  scope.path = "in the graph 'initialization', ";
  if (failed(compute(importer, info.initialization(), scope)))
    return failure();
  llvm::StringSet<> outputs;
  for (const ValueInfoProto &output : info.initialization().output())
    outputs.insert(output.name());
  for (const StringStringEntryProto &entry : info.initialization_binding()) {
    std::string key = displayName(entry.key()), value = displayName(entry.value());
    const TensorProto *tensor = initializers.lookup(entry.key());
    if (!tensor)
      return importer.error("initialization_binding: '" + key + "' is no initializer");
    auto found = scope.values.find(entry.value());
    if (!outputs.contains(entry.value()) || found == scope.values.end() || !found->second.value)
      return importer.error("initialization_binding: '" + key + "' is bound to '" + value +
                            "', which is no output of the graph 'initialization'");
    DenseElementsAttr constant = importer.folder.constantOf(found->second.value);
    auto type = model.type(importer.builder.getContext(), *tensor);
    if (!type)
      return importer.error("initializer '" + key + "': " + llvm::toString(type.takeError()));
    if (!constant)
      return importer.error("initialization_binding: '" + value +
                            "' is too large to be computed: store the initial values in the file");
    if (constant.getType() != *type)
      return importer.error("initialization_binding: '" + key + "' and '" + value +
                            "', to which it is bound, have different types");
    if (!constant.isSplat() && nn::tensorBytes(*type) > nn::kDenseInitLimit)
      return importer.error("initialization_binding: '" + key + "' has more than " +
                            Twine(nn::kDenseInitLimit >> 20) +
                            " MiB: store the initial values in the file");
    if (!values.try_emplace(entry.key(), constant).second)
      return importer.error("initialization_binding: '" + key + "' is bound twice");
  }
  return values;
}
