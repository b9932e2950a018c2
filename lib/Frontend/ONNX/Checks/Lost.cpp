//===- Lost.cpp - Arguments that PyTorch's exporters leave out ------------===//
//
// aten.scaled_dot_product_attention drops probabilities whenever its dropout_p is not 0. The
// exporters write a Dropout without training_mode, which changes nothing, and their optimizer
// removes it. All other Dropouts of PyTorch have training_mode, so one without it is active. If
// none is there, it is restored from the metadata of the nodes of the attention. Sources:
// onnxscript's function_libs/torch_lib/ops/nn.py, PyTorch's
// torch/onnx/_internal/torchscript_exporter.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Definitions.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

std::optional<double> onnx::attentionDropout(const FxNode &fx) {
  int position = words::attentionDropoutPlaceOf(words::kindOf(fx.target));
  return position < 0 ? std::nullopt : numberArgument(fx, position, "dropout_p");
}

namespace {
/// An operation of attention that drops probabilities.
struct Attention {
  double ratio;
  /// False for the forward half of a forward-backward pair: the backward half must have the same
  /// random numbers.
  bool isWhole;
  const NodeProto *dropout = nullptr, *product = nullptr, *last = nullptr;
};

/// Operations by their names in the exported program, in the order of the graph.
using Attentions = llvm::MapVector<std::string, Attention, std::map<std::string, unsigned>>;
} // namespace

static Attentions findAttentions(const GraphProto &graph) {
  Attentions attentions;
  for (const NodeProto &node : graph.node()) {
    if (!metadata(node.metadata_props(), words::kFxNode).contains("scaled_dot_product"))
      continue;
    FxNode fx = readFxNode(node);
    double ratio = attentionDropout(fx).value_or(0);
    if (ratio == 0)
      continue;
    Attention &attention = attentions[fx.name];
    attention.ratio = ratio, attention.last = &node;
    attention.isWhole = StringRef(fx.target).starts_with(words::kScaled);
    if (node.op_type() == "Dropout")
      attention.dropout = &node;
    if (node.op_type() == "MatMul")
      attention.product = &node; // the last one is that of the probabilities and the values
  }
  return attentions;
}

FailureOr<LostDropout> onnx::findLostDropout(ImportContext &context) {
  LostDropout lost;
  if (context.options.dropout == 0.0)
    return lost;
  Attentions attentions = findAttentions(context.graph());
  for (auto &[name, attention] : attentions) {
    if (!attention.isWhole || (!attention.dropout && !attention.product))
      return context.errorAt(
          *attention.last,
          "the export left out the dropout of attention, dropout_p={}: export the forward graph with attention in single operations (attn_implementation=\"eager\" in transformers), or pass --dropout off",
          plain(shortest(attention.ratio)));
    if (!attention.dropout)
      lost[attention.product] = context.options.dropout.value_or(attention.ratio);
  }
  if (!attentions.empty())
    context.remark("dropout of {}{} restored: the export left it out", attentions.size(),
                   attentions.size() == 1 ? " operation of attention is"
                                          : " operations of attention is");
  return lost;
}
