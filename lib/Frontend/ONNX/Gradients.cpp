//===- Gradients.cpp - Gradients that the graph computes ------------------===//
//
// A graph may hold forward and backward in one: the gradients of its parameters are outputs. An
// output is a gradient if --gradient says so, if the exporter's signature does, or by its name.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Gradients.h"
#include "dialects/nn/Ops/Cast.h"
#include "lib/Frontend/ONNX/Losses.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
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

/// Takes the outputs that flags name.
static FailureOr<GradientOutputs> readGradientFlags(ImportContext &context) {
  llvm::StringSet<> outputs;
  for (const ValueInfoProto &output : context.graph().output())
    outputs.insert(output.name());
  GradientOutputs found;
  for (const auto &[parameter, output] : context.options.gradients) {
    if (!outputs.contains(output))
      return context.usage("--gradient {}={}: {} is not an output of the graph",
                           plain(displayName(parameter)), plain(displayName(output)), output);
    if (found.contains(output))
      return context.usage(
          "--gradient: output {} is named twice, but is the gradient of one parameter", output);
    found.list.push_back({parameter, output, GradientOutput::Flag});
  }
  return found;
}

FailureOr<GradientOutputs> onnx::findGradientOutputs(ImportContext &context) {
  if (context.options.deriveGradients)
    return GradientOutputs();
  FailureOr<GradientOutputs> byFlag = readGradientFlags(context);
  if (failed(byFlag))
    return failure();
  GradientOutputs found = *byFlag;
  llvm::StringMap<std::string> signature = readGradientOutputs(context.graph());
  for (const ValueInfoProto &output : context.graph().output()) {
    if (byFlag->contains(output.name()) || output.name() == context.options.lossOutput)
      continue;
    bool isWord;
    auto listed = signature.find(output.name());
    if (listed != signature.end())
      found.list.push_back({listed->second, output.name(), GradientOutput::Signature});
    else if (StringRef target = gradientTarget(output.name(), isWord); !target.empty())
      found.list.push_back(
          {target.str(), output.name(), isWord ? GradientOutput::Word : GradientOutput::Name});
  }
  return found;
}

namespace {

/// Matches outputs with parameters.
class GradientMatcher {
public:
  GradientMatcher(ImportContext &context, const States &states) : context(context), states(states) {
    others.insert_range(states.parameters.absent);
    for (const ValueInfoProto &input : context.graph().input())
      others.insert(input.name());
  }

  LogicalResult match(const GradientOutput &given);
  /// Fails, with an error, if outputs have the names of gradients, but of no parameter.
  LogicalResult checkUnknown();
  /// Fails, with an error, if a trained parameter has no gradient.
  LogicalResult checkMissing();
  /// The gradients, in the order of the parameters.
  std::vector<Gradient> gradients() const;

private:
  LogicalResult noteUnknown(const GradientOutput &given);

  ImportContext &context;
  const States &states;
  llvm::StringSet<> others; // names of what is no parameter of the program
  std::vector<std::string> unknown;
  std::map<size_t, GradientOutput> chosen; // by parameter
};

} // namespace

LogicalResult GradientMatcher::noteUnknown(const GradientOutput &given) {
  if (given.from == GradientOutput::Flag)
    return context.usage(
        "--gradient {}={}: no parameter is named {}; --describe --gradient none lists them",
        plain(displayName(given.target)), plain(displayName(given.output)), given.target);
  if (given.from != GradientOutput::Word && !others.contains(given.target))
    unknown.push_back(displayName(given.output));
  return success();
}

LogicalResult GradientMatcher::match(const GradientOutput &given) {
  std::optional<size_t> index = states.indexOf(given.target);
  if (!index)
    return noteUnknown(given);
  if (!states.isTrained(*index, context.options.parameters))
    return success();
  auto [entry, isNew] = chosen.try_emplace(*index, given);
  const GradientOutput &first = entry->second;
  if (isNew || (first.from == GradientOutput::Flag) != (given.from == GradientOutput::Flag))
    return success(); // what a flag says comes first
  const std::string &name = states.parameters.list[*index].name;
  std::string text =
      say("parameter {} has two gradients, outputs {} and {}: keep one, or say which "
          "with --gradient {}=OUTPUT",
          {name, first.output, given.output, plain(displayName(name))});
  return given.from == GradientOutput::Flag ? context.usage(text) : context.error(text);
}

LogicalResult GradientMatcher::checkUnknown() {
  if (unknown.empty())
    return success();
  return context.error(
      "outputs {} have the names of gradients, but of no parameter: rename them, pass --gradient PARAMETER=OUTPUT for each, or --gradient none, which derives all gradients",
      plain(listOf(unknown, kNamesShown)));
}

LogicalResult GradientMatcher::checkMissing() {
  std::vector<std::string> missing;
  for (auto [index, parameter] : llvm::enumerate(states.parameters.list))
    if (states.isTrained(index, context.options.parameters) && !chosen.count(index))
      missing.push_back(displayName(parameter.name));
  if (missing.empty())
    return success();
  return context.error("the graph computes gradients, but none of parameter" +
                       Twine(missing.size() == 1 ? " " : "s ") + listOf(missing, kNamesShown) +
                       ": add an output 'grad." + missing.front() + "', name one with --gradient " +
                       missing.front() + "=OUTPUT, or pass --freeze for what is not to be trained");
}

std::vector<Gradient> GradientMatcher::gradients() const {
  std::vector<Gradient> list;
  for (const auto &[index, given] : chosen)
    list.push_back({index, given.output});
  return list;
}

FailureOr<std::vector<Gradient>> onnx::matchGradients(ImportContext &context,
                                                      const GradientOutputs &outputs,
                                                      const LossChoice &loss,
                                                      const States &states) {
  GradientMatcher matcher(context, states);
  for (const GradientOutput &given : outputs.list)
    if (failed(matcher.match(given)))
      return failure();
  if (failed(matcher.checkUnknown()))
    return failure();
  std::vector<Gradient> gradients = matcher.gradients();
  if (gradients.empty())
    return gradients;
  if (!loss.isPlain())
    return context.usage(
        "the graph computes gradients (output {}), which are those of its own loss: leave --loss and weights of --loss-output out, or pass --gradient none, which derives the gradients of that loss",
        outputs.list.front().output);
  if (failed(matcher.checkMissing()))
    return failure();
  context.remark(
      "the gradients of {} parameters are outputs of the graph (from {}), and are used as they are; they are those of the loss of one micro-batch",
      gradients.size(), gradients.front().output);
  return gradients;
}

FailureOr<Value> onnx::outputNamed(ImportContext &context, const Scope &graph, StringRef name) {
  Value value = graph.values.lookup(name).value;
  if (!value)
    return context.error("output {} is not defined by any node", name);
  return value;
}

FailureOr<SmallVector<Value>> onnx::readGradients(ImportContext &context, const Scope &graph,
                                                  const States &states,
                                                  ArrayRef<Gradient> gradients) {
  SmallVector<Value> values;
  for (const auto &[index, name] : gradients) {
    FailureOr<Value> gradient = outputNamed(context, graph, name);
    if (failed(gradient))
      return failure();
    auto wanted = cast<RankedTensorType>(states.values[index].getType());
    auto type = cast<RankedTensorType>(gradient->getType());
    std::string parameter = displayName(states.parameters.list[index].name);
    if (type.getShape() != wanted.getShape() || !isa<FloatType>(type.getElementType()))
      return context.error(
          "output {} cannot be the gradient of parameter {}: it is {}, the parameter {}; export it with that shape, or pass --gradient {}=OUTPUT for another",
          name, parameter, type, wanted, plain(parameter));
    if (type != wanted)
      *gradient = nn::CastOp::create(context.builder, context.fileLocation(), wanted, *gradient);
    values.push_back(*gradient);
  }
  return values;
}
