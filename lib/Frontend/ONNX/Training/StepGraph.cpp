//===- StepGraph.cpp - The values of a training step's graph --------------===//
#include "lib/Frontend/ONNX/Training/StepGraph.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Sums of constants are followed through at most this many nodes; a file may have cycles.
static constexpr int kMostSums = 16;

bool onnx::isStandard(const NodeProto *node, StringRef type, int operands) {
  return node && node->op_type() == type && domainOf(node->domain()).empty() &&
         node->input_size() == operands;
}

/// Returns the only element of a constant; none if there are more, or if it is a truth value.
static std::optional<double> onlyOf(DenseElementsAttr values) {
  Type element = values.getElementType();
  if (values.getNumElements() != 1 || element.isInteger(1))
    return std::nullopt;
  return isa<FloatType>(element) ? values.getSplatValue<APFloat>().convertToDouble()
                                 : double(values.getSplatValue<APInt>().getSExtValue());
}

StepGraph::StepGraph(ImportContext &context, const Bindings &bindings, const InitialValues &initial)
    : context(context), bindings(bindings), initial(initial),
      inputs(namesOf(context.graph().input())) {
  for (const NodeProto &node : context.graph().node()) {
    for (const std::string &name : node.output())
      if (!name.empty())
        producers.try_emplace(name, &node);
    if (isStandard(&node, "Identity", 1) && node.output_size() == 1)
      sources.try_emplace(node.output(0), source(node.input(0)));
  }
}

llvm::StringSet<> StepGraph::ancestors(StringRef name) const {
  llvm::StringSet<> seen;
  SmallVector<StringRef> work{name};
  while (!work.empty()) {
    StringRef next = work.pop_back_val();
    const NodeProto *node = producers.lookup(next);
    if (!next.empty() && seen.insert(next).second && node)
      forEachNameRead(*node, [&](StringRef read) { work.push_back(read); });
  }
  return seen;
}

/// Returns a tensor's value if it has one element.
std::optional<double> StepGraph::onlyOf(const TensorProto &tensor) const {
  auto data = expectedToOptional(context.model.read(context.mlirContext(), tensor, 64));
  return data ? ::onlyOf(*data) : std::nullopt;
}

std::optional<double> StepGraph::start(StringRef name) const {
  auto given = initial.find(name);
  return given == initial.end() ? onlyOf(*initializer(name)) : ::onlyOf(given->second);
}

std::optional<double> StepGraph::scalar(StringRef name) const {
  name = source(name);
  if (initializer(name))
    return bindings.lookup(name).empty() ? start(name) : std::nullopt;
  const NodeProto *node = maker(name);
  if (isStandard(node, "Constant", 0))
    for (const AttributeProto &attribute : node->attribute()) {
      if (attribute.name() == "value_float")
        return attribute.f();
      if (attribute.name() == "value_int")
        return double(attribute.i());
      if (attribute.name() == "value" && attribute.has_t())
        return onlyOf(attribute.t());
    }
  return std::nullopt;
}

std::optional<Counted> StepGraph::counted(StringRef name) const {
  Counted result;
  for (int i = 0; i < kMostSums; ++i) {
    result.initializer = name = source(name);
    if (initializer(name))
      return result;
    const NodeProto *node = maker(name);
    bool adds = isStandard(node, "Add", 2);
    if (!adds && !isStandard(node, "Sub", 2))
      return std::nullopt;
    std::optional<double> first = scalar(node->input(0)), second = scalar(node->input(1));
    bool isSwapped = adds && !second && first;
    std::optional<double> number = isSwapped ? first : second;
    if (!number || !(std::abs(*number) <= 1e9) ||
        llvm::AddOverflow(result.offset, int64_t(adds ? *number : -*number), result.offset))
      return std::nullopt;
    name = node->input(isSwapped ? 1 : 0);
  }
  return std::nullopt;
}
