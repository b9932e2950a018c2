//===- Gradients.cpp - Gradients that the graph computes ------------------===//
//
// A graph may hold forward and backward in one: the gradients of its parameters are outputs. An
// output is a gradient if --gradient says so, if the exporter's signature does, or by its name.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Importer.h"
#include "lib/Frontend/ONNX/Signature.h"
#include "lib/Support/Remarks.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum number of names that an error lists.
static constexpr size_t kNamesShown = 6;

/// Returns what the name of an output says it is the gradient of: P in grad.P, P.grad, grad_P and
/// P_grad; empty if the name has none of these forms. The last two may be other words (grad_norm):
/// `isWord` is set.
static StringRef gradientTarget(StringRef output, bool &isWord) {
  StringRef target = output;
  isWord = false;
  if (target.consume_front("grad.") || target.consume_back(".grad"))
    return target;
  isWord = true;
  return target.consume_front("grad_") || target.consume_back("_grad") ? target : "";
}

LogicalResult Importer::findGradientOutputs() {
  const GraphProto &graph = model.proto().graph();
  if (options.deriveGradients)
    return success();
  llvm::StringSet<> outputs, byFlag;
  for (const ValueInfoProto &output : graph.output())
    outputs.insert(output.name());
  for (const auto &[parameter, output] : options.gradients) {
    if (!outputs.contains(output))
      return error("--gradient " + displayName(parameter) + "=" + displayName(output) + ": '" +
                       displayName(output) + "' is not an output of the graph",
                   SHALE_EXIT_USAGE),
             failure();
    if (!byFlag.insert(output).second)
      return error("--gradient: output '" + displayName(output) +
                       "' is named twice, but is the gradient of one parameter",
                   SHALE_EXIT_USAGE),
             failure();
    gradientOutputs.push_back({parameter, output, GradientOutput::Flag});
  }
  llvm::StringMap<std::string> signature = readGradientOutputs(graph);
  for (const ValueInfoProto &output : graph.output()) {
    if (byFlag.contains(output.name()) || output.name() == options.lossOutput)
      continue;
    bool isWord;
    auto listed = signature.find(output.name());
    if (listed != signature.end())
      gradientOutputs.push_back({listed->second, output.name(), GradientOutput::Signature});
    else if (StringRef target = gradientTarget(output.name(), isWord); !target.empty())
      gradientOutputs.push_back(
          {target.str(), output.name(), isWord ? GradientOutput::Word : GradientOutput::Name});
  }
  return success();
}

bool Importer::isGradientOutput(StringRef name) const {
  return llvm::any_of(gradientOutputs,
                      [&](const GradientOutput &each) { return each.output == name; });
}

/// Returns the index of the parameter with a name, as Shale or the exporter writes it.
std::optional<size_t> Importer::parameterNamed(StringRef name) const {
  for (auto [index, parameter] : llvm::enumerate(parameters.list))
    if (parameter.name == name || parameters.prefix + parameter.name == name ||
        llvm::is_contained(parameter.aliases, name))
      return index;
  return std::nullopt;
}

LogicalResult Importer::matchGradients() {
  current = nullptr;
  llvm::StringSet<> others(llvm::from_range, parameters.absent);
  for (const ValueInfoProto &input : model.proto().graph().input())
    others.insert(input.name());
  std::vector<std::string> unknown;
  std::map<size_t, GradientOutput> chosen; // by parameter
  for (const GradientOutput &given : gradientOutputs) {
    std::optional<size_t> index = parameterNamed(given.target);
    if (!index) {
      if (given.from == GradientOutput::Flag)
        return error("--gradient " + displayName(given.target) + "=" + displayName(given.output) +
                         ": no parameter is named '" + displayName(given.target) +
                         "'; --describe --gradient none lists them",
                     SHALE_EXIT_USAGE),
               failure();
      if (given.from != GradientOutput::Word && !others.contains(given.target))
        unknown.push_back(displayName(given.output));
      continue;
    }
    const Parameter &parameter = parameters.list[*index];
    if (!parameter.isParameter || !stateValues[*index] ||
        options.parameters.freezes(parameter.name))
      continue;
    auto [entry, isNew] = chosen.try_emplace(*index, given);
    if (isNew ||
        (entry->second.from == GradientOutput::Flag) != (given.from == GradientOutput::Flag))
      continue; // what a flag says comes first
    return error("parameter '" + displayName(parameter.name) + "' has two gradients, outputs '" +
                     displayName(entry->second.output) + "' and '" + displayName(given.output) +
                     "': keep one, or say which with --gradient " + displayName(parameter.name) +
                     "=OUTPUT",
                 given.from == GradientOutput::Flag ? SHALE_EXIT_USAGE : SHALE_EXIT_DATA),
           failure();
  }
  if (!unknown.empty())
    return error("outputs " + listOf(unknown, kNamesShown) +
                 " have the names of gradients, but of no parameter: rename them, pass --gradient "
                 "PARAMETER=OUTPUT for each, or --gradient none, which derives all gradients"),
           failure();
  if (chosen.empty())
    return success();
  if (!lossKind.empty() || lossTerms.size() > 1 || lossTerms.front().weight != 1)
    return error(
               "the graph computes gradients (output '" +
                   displayName(gradientOutputs.front().output) +
                   "'), which are those of its own loss: leave --loss and weights of --loss-output "
                   "out, or pass --gradient none, which derives the gradients of that loss",
               SHALE_EXIT_USAGE),
           failure();
  std::vector<std::string> missing;
  for (auto [index, parameter] : llvm::enumerate(parameters.list))
    if (parameter.isParameter && stateValues[index] &&
        !options.parameters.freezes(parameter.name) && !chosen.count(index))
      missing.push_back(displayName(parameter.name));
  if (!missing.empty())
    return error("the graph computes gradients, but none of parameter" +
                 Twine(missing.size() == 1 ? " " : "s ") + listOf(missing, kNamesShown) +
                 ": add an output 'grad." + missing.front() + "', name one with --gradient " +
                 missing.front() + "=OUTPUT, or pass --freeze for what is not to be trained"),
           failure();
  for (const auto &[index, given] : chosen)
    gradients.push_back({index, given.output});
  scopesAreLost = llvm::none_of(model.proto().graph().node(), [](const NodeProto &node) {
    return !readScope(node).value_or("").empty();
  });
  emitDecision(fileLocation(), "import",
               "the gradients of " + Twine(gradients.size()) +
                   " parameters are outputs of the graph (from '" +
                   displayName(gradients.front().second) +
                   "'), and are used as they are; they are those of the loss of one micro-batch");
  return success();
}

LogicalResult Importer::readGradients(SmallVectorImpl<Value> &results) {
  for (const auto &[index, name] : gradients) {
    FailureOr<Value> found = output(name);
    if (mlir::failed(found))
      return failure();
    Value gradient = *found;
    auto wanted = cast<RankedTensorType>(stateValues[index].getType());
    auto type = dyn_cast_or_null<RankedTensorType>(gradient ? gradient.getType() : Type());
    std::string parameter = displayName(parameters.list[index].name);
    if (!type || type.getShape() != wanted.getShape() || !isa<FloatType>(type.getElementType()))
      return error("output '" + displayName(name) + "' cannot be the gradient of parameter '" +
                   parameter + "': it is " + (type ? Node::name(type) : "a sequence") +
                   ", the parameter " + Node::name(wanted) +
                   "; export it with that shape, or pass "
                   "--gradient " +
                   parameter + "=OUTPUT for another"),
             failure();
    if (type != wanted)
      gradient = nn::CastOp::create(builder, fileLocation(), wanted, gradient);
    results.push_back(gradient);
  }
  return success();
}
