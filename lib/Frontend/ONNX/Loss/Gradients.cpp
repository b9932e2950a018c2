//===- Gradients.cpp - Gradients that the graph computes ------------------===//
//
// A graph may hold forward and backward in one: the gradients of its parameters are outputs. An
// output is a gradient if --gradient says so, if the exporter's signature does, or by its name.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "lib/Frontend/ONNX/Loss/Losses.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum number of names that an error lists.
static constexpr size_t kNamesShown = 6;

/// Returns what the name of an output says it is the gradient of: P in grad.P, P.grad, grad_P and
/// P_grad; empty if the name has none of these forms. The last two may be words (grad_norm).
static std::pair<StringRef, GradientOutput::From> gradientTarget(StringRef output) {
  if (output.consume_front("grad.") || output.consume_back(".grad"))
    return {output, GradientOutput::Name};
  bool isWord = output.consume_front("grad_") || output.consume_back("_grad");
  return {isWord ? output : "", GradientOutput::Word};
}

FailureOr<GradientOutputs> onnx::findGradientOutputs(ImportContext &context) {
  GradientOutputs found;
  if (context.options.deriveGradients)
    return found;
  llvm::StringSet<> outputs = namesOf(context.graph().output());
  for (const auto &[parameter, output] : context.options.gradients) {
    if (!outputs.contains(output))
      return context.usage("--gradient {}={}: {} is not an output of the graph",
                           plain(displayName(parameter)), plain(displayName(output)), output);
    if (found.contains(output))
      return context.usage(
          "--gradient: output {} is named twice, but is the gradient of one parameter", output);
    found.list.push_back({parameter, output, GradientOutput::Flag});
  }
  const llvm::StringMap<std::string> signature = readSignature(context.graph()).gradients;
  for (const ValueInfoProto &output : context.graph().output()) {
    if (found.contains(output.name()) || output.name() == context.options.lossOutput)
      continue;
    auto [target, from] = gradientTarget(output.name());
    StringRef original = metadata(output.metadata_props(), words::kOriginalName);
    if (auto listed = signature.find(original.empty() ? StringRef(output.name()) : original);
        listed != signature.end())
      found.list.push_back({listed->second, output.name(), GradientOutput::Signature});
    else if (!target.empty())
      found.list.push_back({target.str(), output.name(), from});
  }
  return found;
}

FailureOr<std::vector<Gradient>> onnx::matchGradients(ImportContext &context,
                                                      const GradientOutputs &outputs,
                                                      const LossChoice &loss,
                                                      const States &states) {
  llvm::StringSet<> others = namesOf(context.graph().input()); // of what is no parameter
  others.insert_range(states.parameters.absent);
  std::vector<std::string> unknown, missing;
  std::map<size_t, GradientOutput> chosen; // by the index of the parameter
  for (const GradientOutput &given : outputs.list) {
    bool isOfFlag = given.from == GradientOutput::Flag;
    std::optional<size_t> index = states.indexOf(given.target);
    if (!index && isOfFlag)
      return context.usage(
          "--gradient {}={}: no parameter is named {}; --describe --gradient none lists them",
          plain(displayName(given.target)), plain(displayName(given.output)), given.target);
    if (!index && given.from != GradientOutput::Word && !others.contains(given.target))
      unknown.push_back(displayName(given.output));
    if (!index || !states.isTrained(*index, context.options.parameters))
      continue;
    auto [entry, isNew] = chosen.try_emplace(*index, given);
    const GradientOutput &first = entry->second;
    if (isNew || (first.from == GradientOutput::Flag) != isOfFlag)
      continue; // what a flag says comes first
    const std::string &name = states.parameters.list[*index].name;
    std::string text =
        say("parameter {} has two gradients, outputs {} and {}: keep one, or say which "
            "with --gradient {}=OUTPUT",
            {name, first.output, given.output, plain(displayName(name))});
    return isOfFlag ? context.usage(text) : context.error(text);
  }
  if (!unknown.empty())
    return context.error(
        "outputs {} have the names of gradients, but of no parameter: rename them, pass --gradient PARAMETER=OUTPUT for each, or --gradient none, which derives all gradients",
        plain(listOf(unknown, kNamesShown)));
  std::vector<Gradient> gradients;
  if (chosen.empty())
    return gradients;
  if (!loss.kind.empty() || loss.terms.size() != 1 || loss.terms.front().weight != 1)
    return context.usage(
        "the graph computes gradients (output {}), which are those of its own loss: leave --loss and weights of --loss-output out, or pass --gradient none, which derives the gradients of that loss",
        outputs.list.front().output);
  for (auto [index, parameter] : llvm::enumerate(states.parameters.list)) {
    if (auto given = chosen.find(index); given != chosen.end())
      gradients.push_back({index, given->second.output});
    else if (states.isTrained(index, context.options.parameters))
      missing.push_back(displayName(parameter.name));
  }
  if (!missing.empty())
    return context.error(
        "the graph computes gradients, but none of {}{}: add an output 'grad.{}', name one with --gradient {}=OUTPUT, or pass --freeze for what is not to be trained",
        missing.size() == 1 ? "parameter " : "parameters ", plain(listOf(missing, kNamesShown)),
        plain(missing.front()), plain(missing.front()));
  context.remark(
      "the gradients of {} parameters are outputs of the graph (from {}), and are used as they are; they are those of the loss of one micro-batch",
      gradients.size(), gradients.front().output);
  return gradients;
}

FailureOr<Value> onnx::outputNamed(ImportContext &context, StringRef name) {
  Value value = context.scope.values.lookup(name).value;
  if (!value)
    return context.error("output {} is not defined by any node", name);
  return value;
}

FailureOr<SmallVector<Value>> onnx::readGradients(ImportContext &context, const States &states,
                                                  ArrayRef<Gradient> gradients) {
  SmallVector<Value> values;
  for (const auto &[index, name] : gradients) {
    FailureOr<Value> gradient = outputNamed(context, name);
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
