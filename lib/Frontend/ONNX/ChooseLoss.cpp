//===- ChooseLoss.cpp - Which values of the graph the loss is computed from ===//
#include "lib/Frontend/ONNX/Losses.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static std::string listOutputs(const GraphProto &graph) {
  std::vector<std::string> names;
  for (const ValueInfoProto &output : graph.output())
    names.push_back(displayName(output.name()));
  return listOf(names, names.size());
}

/// Whether a name is an output of the graph, or of one of its nodes.
static bool hasOutput(const GraphProto &graph, StringRef name) {
  if (llvm::any_of(graph.output(), [&](auto &output) { return output.name() == name; }))
    return true;
  return llvm::any_of(graph.node(),
                      [&](auto &node) { return llvm::is_contained(node.output(), name); });
}

/// Parses --loss.
static LogicalResult parseForm(ImportContext &context, LossChoice &loss) {
  StringRef text = context.options.loss;
  if (text.empty())
    return success();
  auto [kind, rest] = text.split(':');
  auto [first, second] = rest.split(',');
  bool two = kind == "cross-entropy" || kind == "mse";
  bool one = kind == "next-token" || kind == "mean" || kind == "sum";
  if (!(one || two) || first.empty() || two == second.empty() || (one && rest.contains(',')))
    return context.usage(
        "--loss {} is not one of next-token:LOGITS, cross-entropy:LOGITS,LABELS, mse:OUT,TARGET, mean:OUT, sum:OUT",
        text);
  if (!hasOutput(context.graph(), first))
    return context.usage("--loss: {} is not an output of the graph; outputs are {}", first,
                         plain(listOutputs(context.graph())));
  loss.kind = kind.str();
  loss.logits = first.str();
  loss.labels = second.str();
  return success();
}

/// Parses NAME or NAME=WEIGHT.
static FailureOr<LossTerm> parseTerm(ImportContext &context, StringRef word) {
  const GraphProto &graph = context.graph();
  LossTerm term{word.str(), 1};
  if (!hasOutput(graph, word) && word.contains('=')) {
    auto [name, weight] = word.rsplit('=');
    term.output = name.str();
    if (!llvm::to_float(weight, term.weight) || !std::isfinite(term.weight) || term.weight == 0)
      return context.usage(
          "--loss-output: {} is not the weight of {}: give a finite number other than 0", weight,
          name);
  }
  if (!hasOutput(graph, term.output))
    return context.usage(
        "--loss-output: {} is not an output of the graph; outputs are {}. Give NAME, or NAME=WEIGHT,.. for a weighted sum",
        term.output, plain(listOutputs(graph)));
  return term;
}

/// Parses --loss-output: the name of an output, or names with weights.
static LogicalResult parseTerms(ImportContext &context, LossChoice &loss) {
  StringRef text = context.options.lossOutput;
  if (text.empty())
    return success();
  if (hasOutput(context.graph(), text)) {
    loss.terms.push_back({text.str(), 1});
    return success();
  }
  SmallVector<StringRef> words;
  text.split(words, ',');
  for (StringRef word : words) {
    FailureOr<LossTerm> term = parseTerm(context, word);
    if (failed(term))
      return failure();
    if (llvm::any_of(loss.terms, [&](const LossTerm &each) { return each.output == term->output; }))
      return context.usage("--loss-output: {} is given twice", term->output);
    loss.terms.push_back(*term);
  }
  return success();
}

namespace {
/// The outputs that may be a loss, and those that may be logits.
struct Candidates {
  SmallVector<StringRef> scalars, logits;
};
} // namespace

static Candidates findCandidates(const GraphProto &graph, const GradientOutputs &gradients) {
  Candidates found;
  for (const ValueInfoProto &output : graph.output()) {
    if (gradients.contains(output.name()))
      continue;
    const TypeProto::Tensor &type = output.type().tensor_type();
    int32_t element = type.elem_type();
    if (type.has_shape() && type.shape().dim_size() == 0 &&
        (element == 1 || element == 10 || element == 11 || element == 16))
      found.scalars.push_back(output.name());
    if (type.shape().dim_size() == 3)
      found.logits.push_back(output.name());
  }
  if (found.scalars.size() > 1 && llvm::is_contained(found.scalars, "loss"))
    found.scalars = {"loss"};
  return found;
}

/// Takes the only scalar output. For a description, takes next tokens of the only logits if there
/// is none.
static LogicalResult takeCandidate(ImportContext &context, const Candidates &candidates,
                                   LossChoice &loss) {
  ArrayRef<StringRef> scalars = candidates.scalars, logits = candidates.logits;
  if (scalars.size() > 1) {
    std::string listed;
    for (StringRef name : scalars)
      listed += (listed.empty() ? "'" : ", '") + displayName(name) + "'";
    return context.usage(
        "the graph has several scalar outputs (" + listed +
        "): say which one is the loss with --loss-output NAME, or give weights of their "
        "sum: --loss-output " +
        displayName(scalars[0]) + "=1," + displayName(scalars[1]) + "=0.01");
  }
  if (scalars.size() == 1) {
    loss.terms.push_back({scalars.front().str(), 1});
    return success();
  }
  if (logits.size() == 1 && context.options.assumed) {
    loss.kind = "next-token";
    loss.logits = logits.front().str();
    context.options.assumed->push_back("--loss next-token:" + displayName(loss.logits));
    return success();
  }
  std::string outputs = listOutputs(context.graph());
  return context.usage("the graph has no scalar output that could be the loss; "
                       "outputs are " +
                       (outputs.empty() ? "none" : outputs) + ": pass --loss next-token:" +
                       (logits.size() == 1 ? displayName(logits.front()) : "LOGITS") +
                       ", "
                       "cross-entropy:LOGITS,LABELS or mse:OUT,TARGET, or mean:OUT or sum:OUT "
                       "if an output has one loss for each example");
}

FailureOr<LossChoice> onnx::chooseLoss(ImportContext &context, const GradientOutputs &gradients) {
  LossChoice loss;
  if (failed(parseForm(context, loss)) || failed(parseTerms(context, loss)))
    return failure();
  if (loss.isEmpty() &&
      failed(takeCandidate(context, findCandidates(context.graph(), gradients), loss)))
    return failure();
  return loss;
}

SmallVector<StringRef> onnx::rootsOf(const LossChoice &loss, const GradientOutputs &gradients) {
  SmallVector<StringRef> names;
  for (const LossTerm &term : loss.terms)
    names.push_back(term.output);
  for (StringRef name : {StringRef(loss.logits), StringRef(loss.labels)})
    if (!name.empty())
      names.push_back(name);
  for (const GradientOutput &gradient : gradients.list)
    names.push_back(gradient.output);
  return names;
}
