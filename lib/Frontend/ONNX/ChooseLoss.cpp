//===- ChooseLoss.cpp - Which values of the graph the loss is computed from ===//
#include "include/shale/Runtime.h"
#include "lib/Frontend/ONNX/Importer.h"
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
LogicalResult Importer::parseLossForm() {
  const GraphProto &graph = model.proto().graph();
  auto [kind, rest] = StringRef(options.loss).split(':');
  auto [first, second] = rest.split(',');
  bool two = kind == "cross-entropy" || kind == "mse";
  bool one = kind == "next-token" || kind == "mean" || kind == "sum";
  if (!(one || two) || first.empty() || two == second.empty() || (one && rest.contains(',')))
    return error("--loss '" + displayName(options.loss) +
                     "' is not one of next-token:LOGITS, "
                     "cross-entropy:LOGITS,LABELS, mse:OUT,TARGET, mean:OUT, sum:OUT",
                 SHALE_EXIT_USAGE),
           failure();
  if (!hasOutput(graph, first))
    return error("--loss: '" + displayName(first) +
                     "' is not an output of the graph; outputs are " + listOutputs(graph),
                 SHALE_EXIT_USAGE),
           failure();
  lossKind = kind.str();
  logitsName = first.str();
  labelsName = second.str();
  return success();
}

/// Parses --loss-output: the name of an output, or names with weights.
LogicalResult Importer::parseLossOutputs() {
  const GraphProto &graph = model.proto().graph();
  StringRef text = options.lossOutput;
  if (hasOutput(graph, text)) {
    lossTerms.push_back({text.str(), 1});
    return success();
  }
  SmallVector<StringRef> words;
  text.split(words, ',');
  for (StringRef word : words) {
    LossTerm term{word.str(), 1};
    if (!hasOutput(graph, word) && word.contains('=')) {
      auto [name, weight] = word.rsplit('=');
      term.output = name.str();
      if (!llvm::to_float(weight, term.weight) || !std::isfinite(term.weight) || term.weight == 0)
        return error("--loss-output: '" + displayName(weight) + "' is not the weight of '" +
                         displayName(name) + "': give a finite number other than 0",
                     SHALE_EXIT_USAGE),
               failure();
    }
    if (!hasOutput(graph, term.output))
      return error("--loss-output: '" + displayName(term.output) +
                       "' is not an output of the graph; outputs are " + listOutputs(graph) +
                       ". Give NAME, or NAME=WEIGHT,.. for a weighted sum",
                   SHALE_EXIT_USAGE),
             failure();
    if (llvm::any_of(lossTerms, [&](const LossTerm &each) { return each.output == term.output; }))
      return error("--loss-output: '" + displayName(term.output) + "' is given twice",
                   SHALE_EXIT_USAGE),
             failure();
    lossTerms.push_back(term);
  }
  return success();
}

LogicalResult Importer::chooseLoss() {
  const GraphProto &graph = model.proto().graph();
  if (!options.loss.empty() && mlir::failed(parseLossForm()))
    return failure();
  if (!options.lossOutput.empty() && mlir::failed(parseLossOutputs()))
    return failure();
  if (!lossKind.empty() || !lossTerms.empty())
    return success();
  std::string outputs = listOutputs(graph);
  SmallVector<StringRef> scalars, logits;
  for (const ValueInfoProto &output : graph.output()) {
    if (isGradientOutput(output.name()))
      continue;
    const TypeProto::Tensor &type = output.type().tensor_type();
    int32_t element = type.elem_type();
    if (type.has_shape() && type.shape().dim_size() == 0 &&
        (element == 1 || element == 10 || element == 11 || element == 16))
      scalars.push_back(output.name());
    if (type.shape().dim_size() == 3)
      logits.push_back(output.name());
  }
  if (scalars.size() > 1 && llvm::is_contained(scalars, "loss"))
    scalars = {"loss"};
  std::string listed;
  for (StringRef name : scalars)
    listed += (listed.empty() ? "'" : ", '") + displayName(name) + "'";
  if (scalars.size() > 1)
    return error(
               "the graph has several scalar outputs (" + listed +
                   "): say which one is the loss with --loss-output NAME, or give weights of their "
                   "sum: --loss-output " +
                   displayName(scalars[0]) + "=1," + displayName(scalars[1]) + "=0.01",
               SHALE_EXIT_USAGE),
           failure();
  if (scalars.empty() && logits.size() == 1 && options.assumed) {
    lossKind = "next-token";
    logitsName = logits.front().str();
    options.assumed->push_back("--loss next-token:" + displayName(logitsName));
    return success();
  }
  if (scalars.empty())
    return error("the graph has no scalar output that could be the loss; "
                 "outputs are " +
                     (outputs.empty() ? "none" : outputs) + ": pass --loss next-token:" +
                     (logits.size() == 1 ? displayName(logits.front()) : "LOGITS") +
                     ", "
                     "cross-entropy:LOGITS,LABELS or mse:OUT,TARGET, or mean:OUT or sum:OUT if an "
                     "output has one loss for each example",
                 SHALE_EXIT_USAGE),
           failure();
  lossTerms.push_back({scalars.front().str(), 1});
  return success();
}

SmallVector<StringRef> Importer::roots() const {
  SmallVector<StringRef> names;
  for (const LossTerm &term : lossTerms)
    names.push_back(term.output);
  for (StringRef name : {StringRef(logitsName), StringRef(labelsName)})
    if (!name.empty())
      names.push_back(name);
  for (const GradientOutput &gradient : gradientOutputs)
    names.push_back(gradient.output);
  return names;
}
