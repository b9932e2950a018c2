//===- StepGraph.cpp - The graph of a file's training step ----------------===//
#include "lib/Frontend/ONNX/Training/StepGraph.h"
#include "lib/Frontend/ONNX/Scope.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Sums that a counter may consist of.
static constexpr int kMostSums = 16;

StepGraph::StepGraph(ImportContext &context, const InitialValues &initial, const Bindings &bindings)
    : context(context), initial(initial), bindings(bindings) {
  for (const NodeProto &node : graph().node())
    for (const std::string &name : node.output())
      if (!name.empty())
        producers.try_emplace(name, &node);
  for (const ValueInfoProto &input : graph().input())
    if (!initializer(input.name()))
      inputs.insert(input.name());
}

bool StepGraph::isTraining(const NodeProto &node, StringRef type) {
  return node.domain() == kTrainingDomain && (type.empty() || node.op_type() == type);
}

bool StepGraph::isDefined(StringRef name) const {
  return initializer(name) || producers.count(name) || inputs.contains(name);
}

StringRef StepGraph::source(StringRef name) const {
  SmallVector<StringRef> passed;
  // A chain of copies is no longer than the graph; a longer one is a cycle.
  for (int i = 0, e = graph().node_size(); i <= e; ++i) {
    if (auto known = sources.find(name); known != sources.end()) {
      name = known->second;
      break;
    }
    const NodeProto *node = producer(name);
    if (!node || node->op_type() != "Identity" || !domainOf(node->domain()).empty() ||
        node->input_size() != 1)
      break;
    passed.push_back(name);
    name = node->input(0);
  }
  for (StringRef copy : passed)
    sources[copy] = name;
  return name;
}

llvm::StringSet<> StepGraph::ancestors(StringRef name) const {
  llvm::StringSet<> seen;
  SmallVector<StringRef> work{name};
  while (!work.empty()) {
    StringRef next = work.pop_back_val();
    if (next.empty() || !seen.insert(next).second)
      continue;
    const NodeProto *node = producer(next);
    if (!node)
      continue;
    forEachNameRead(*node, [&](StringRef read) { work.push_back(read); });
  }
  return seen;
}

static std::optional<double> firstOf(DenseElementsAttr values) {
  if (values.getNumElements() != 1)
    return std::nullopt;
  if (isa<FloatType>(values.getElementType()))
    return (*values.getValues<APFloat>().begin()).convertToDouble();
  if (values.getElementType().isInteger(1))
    return std::nullopt;
  return double((*values.getValues<APInt>().begin()).getSExtValue());
}

StringRef StepGraph::update(StringRef initializer) const { return bindings.lookup(initializer); }

/// Returns a tensor's value if it has one element.
static std::optional<double> readOne(ImportContext &context, const TensorProto &tensor) {
  auto data = context.model.read(context.mlirContext(), tensor, 64);
  if (data)
    return firstOf(*data);
  llvm::consumeError(data.takeError());
  return std::nullopt;
}

std::optional<double> StepGraph::start(StringRef name) const {
  auto given = initial.find(name);
  if (given != initial.end())
    return firstOf(given->second);
  const TensorProto *tensor = initializer(name);
  return tensor ? readOne(context, *tensor) : std::nullopt;
}

std::optional<double> StepGraph::scalar(StringRef name) const {
  name = source(name);
  if (initializer(name))
    return update(name).empty() ? start(name) : std::nullopt;
  const NodeProto *node = producer(name);
  if (!node || node->op_type() != "Constant" || !domainOf(node->domain()).empty())
    return std::nullopt;
  for (const AttributeProto &attribute : node->attribute()) {
    if (attribute.name() == "value_float")
      return attribute.f();
    if (attribute.name() == "value_int")
      return double(attribute.i());
    if (attribute.name() == "value" && attribute.has_t())
      return readOne(context, attribute.t());
  }
  return std::nullopt;
}

std::optional<Counted> StepGraph::counted(StringRef name) const {
  Counted result;
  for (int i = 0; i < kMostSums; ++i) {
    name = source(name);
    if (initializer(name)) {
      result.initializer = name.str();
      return result;
    }
    const NodeProto *node = producer(name);
    bool adds = node && node->op_type() == "Add", subtracts = node && node->op_type() == "Sub";
    if ((!adds && !subtracts) || node->input_size() != 2 || !domainOf(node->domain()).empty())
      return std::nullopt;
    std::optional<double> second = scalar(node->input(1)), first = scalar(node->input(0));
    bool swapped = adds && !second && first;
    std::optional<double> number = swapped ? first : second;
    if (!number || !(std::abs(*number) <= 1e9) ||
        llvm::AddOverflow(result.offset, int64_t(adds ? *number : -*number), result.offset))
      return std::nullopt;
    name = node->input(swapped ? 1 : 0);
  }
  return std::nullopt;
}

llvm::Expected<bool> StepGraph::isZero(StringRef initializer) const {
  auto given = initial.find(initializer);
  if (given != initial.end()) {
    auto values = given->second.getValues<APFloat>();
    return llvm::all_of(values, [](const APFloat &value) { return value.isZero(); });
  }
  return context.model.isZero(context.mlirContext(), *this->initializer(initializer));
}
