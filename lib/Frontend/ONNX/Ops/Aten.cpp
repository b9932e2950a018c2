//===- Aten.cpp - Operators of PyTorch that a traced file keeps whole -----===//
//
// A gradient is imported as what autodiff would derive from the op of its forward call. It has to
// read the operands and results of that call, else its body is imported.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Norm.h"
#include "lib/Frontend/ONNX/Ops/Attend.h"
#include "lib/Frontend/ONNX/Reader/Scope.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Sets the results to the gradients of operands of `op`, where its first result has the gradient
/// `grad`: of the `wanted` ones, which have the types of `like`. Returns false if there are none.
static bool setGradients(Node &node, DifferentiableOpInterface op, Value grad,
                         ArrayRef<unsigned> wanted, ArrayRef<Value> like) {
  SmallVector<Value> resultGrads(op->getNumResults()), grads(op->getNumOperands());
  SmallVector<bool> isWanted(op->getNumOperands(), false);
  for (unsigned index : wanted)
    isWanted[index] = true;
  resultGrads[0] = grad;
  if (failed(op.buildGradient(node.builder, resultGrads, isWanted, grads)))
    return false;
  bool fits = true;
  for (auto [index, operand] : llvm::zip(wanted, like)) {
    if (Operation *made = grads[index] ? grads[index].getDefiningOp() : nullptr)
      node.adopt(made);
    fits = fits && grads[index] && grads[index].getType() == operand.getType();
  }
  for (auto [i, index] : llvm::enumerate(wanted))
    if (fits && node.wants(i))
      node.set(i, grads[index]);
  return fits;
}

/// result, lse = attention(query, key, value [, mask]). A row that the mask hides is 0.
template <bool isMasked> static bool importAttention(Node &node) {
  Attend form{node.input(0), node.input(1), node.input(2)};
  Tensor mask = isMasked ? node.input(3) : Tensor(), q = form.query, k = form.key;
  bool causal = node.flagAttr("is_causal", false);
  form.scale = node.floatAttr("scale", 1);
  // PyTorch counts the positions of queries from the first key, and nn.attention from the last.
  if (!fit(form) || !std::isfinite(form.scale) || (causal && q.dim(2) != k.dim(2)) ||
      q.dim(1) != k.dim(1) || (mask && (mask.element() != q.element() || !broadcasts(form, mask))))
    return false;
  Operation *op =
      buildAttention(node, form, rank4(mask), isMasked, causal, node.builder.getF32Type());
  if (!node.finish(op))
    return false;
  node.set(0, op->getResult(0));
  node.set(1, op->getResult(1));
  return true;
}

/// Returns what a value is before it is reshaped; null for null.
static Value withoutReshape(Value value) {
  auto reshape = value ? value.getDefiningOp<nn::ReshapeOp>() : nn::ReshapeOp();
  return reshape ? Value(reshape.getInput()) : value;
}

/// dquery, dkey, dvalue = .. (grad, query, key, value, result, lse [, mask]).
template <bool isMasked> static bool importAttentionGradient(Node &node) {
  auto forward = node.input(5).getDefiningOp<nn::AttentionOp>();
  if (!forward || forward.getLse() != node.input(5) || forward.getResult() != node.input(4) ||
      forward.getQuery() != node.input(1) || forward.getKey() != node.input(2) ||
      forward.getValue() != node.input(3) || node.input(0).getType() != node.input(4).getType())
    return false;
  if (node.flagAttr("is_causal", false) != forward.getCausal() ||
      llvm::APFloat(node.floatAttr("scale", 1)) != forward.getScale())
    return false;
  if (isMasked != bool(forward.getMask()) ||
      (isMasked && withoutReshape(forward.getMask()) != withoutReshape(node.input(6))))
    return false;
  return setGradients(node, forward, node.input(0), {0, 1, 2},
                      {node.input(1), node.input(2), node.input(3)});
}

/// dx, dweight, dbias = .. (grad, x, mean, rstd, weight).
static bool importLayerNormGradient(Node &node) {
  Operation *found = node.building.normOf.lookup(node.input(2));
  auto norm = dyn_cast_or_null<nn::LayerNormOp>(found);
  if (!norm || found != node.building.normOf.lookup(node.input(3)) ||
      norm.getInput() != node.input(1) || norm.getScale() != node.input(4) ||
      node.input(0).getType() != node.input(1).getType())
    return false;
  return setGradients(node, norm, node.input(0), {0, 1, 2},
                      {node.input(1), node.input(4), node.input(4)});
}

/// result = .. (grad, indices): PyTorch's indices are rows of the table.
static bool importEmbeddingGradient(Node &node) {
  Tensor grad = node.input(0), indices = node.input(1);
  int64_t rows = node.intAttr("num_weights", 0);
  if (rows <= 0 || grad.rank() == 0 || grad.shape().drop_back() != indices.shape() ||
      !grad.hasFloats() || !isa<IntegerType>(indices.element()))
    return false;
  auto type = RankedTensorType::get({rows, grad.dim(-1)}, grad.element());
  Tensor result = node.create<nn::EmbeddingGradOp>(type, indices, grad);
  return result && succeeded(node.give(result));
}

/// loss, total = .. (logs, target): with log-probabilities from a LogSoftmax, a cross-entropy of
/// its operand. If every label is ignored, the loss is 0.
static bool importLoss(Node &node) {
  Tensor logits(node, node.building.logSoftmaxOf.lookup(node.input(0))), target = node.input(1);
  bool isMean = node.flagAttr("mean", true);
  int64_t ignore = node.intAttr("ignore_index", 0);
  if (logits.rank() != 2 || !logits.element().isF32() ||
      target.shape() != logits.shape().take_front(1) || !isa<IntegerType>(target.element()))
    return false;
  LossParts parts = buildCrossEntropy(node, logits, target, ignore);
  node.set(1, parts.count);
  Tensor loss = isMean ? buildMean(node, parts) : Tensor(node, parts.sum);
  if (!isMean)
    parts.count = node.constant(loss.type(), 1);
  node.building.lossParts[loss] = parts;
  node.set(0, loss);
  return true;
}

/// result = .. (grad, logs, target, total). It is one op together with the gradient of the softmax
/// that reads it; for other readers there is the body.
static bool noteLossGradient(Node &node) {
  if (node.depth != 0)
    return false;
  int64_t ignore = node.intAttr("ignore_index", 0);
  node.building.lossGradients[node.proto.output(0)] = {node.input(0), node.input(1),
                                                       node.input(2), node.input(3),
                                                       ignore,        node.flagAttr("mean", true)};
  return false;
}

/// result = .. (grad, output): the gradient of a LogSoftmax.
static bool importLogSoftmaxGradient(Node &node) {
  if (node.depth != 0)
    return false;
  auto it = node.building.lossGradients.find(node.proto.input(0));
  if (it == node.building.lossGradients.end() || it->second.logs != node.input(1))
    return false;
  const LossGradient &of = it->second;
  auto loss = of.total.getDefiningOp<nn::CrossEntropyOp>();
  if (!loss || loss.getCount() != of.total || loss.getLabels() != of.target ||
      loss.getIgnoreIndex() != uint64_t(of.ignore) ||
      loss.getLogits() != node.building.logSoftmaxOf.lookup(of.logs) ||
      of.grad.getType() != loss.getLossSum().getType())
    return false;
  Tensor grad(node, of.grad);
  if (of.isMean)
    grad = grad / max(Tensor(node, of.total), 1);
  return grad && setGradients(node, loss, grad, {0}, {node.input(1)});
}

/// Whether these are the rows, the other operand and the ends of a matmul of groups.
static bool areGroups(Tensor x, Tensor other, Tensor ends) {
  return x.rank() == 2 && x.hasFloats() && other.element() == x.element() && ends.rank() == 1 &&
         ends.dim(0) > 0 && (ends.element().isInteger(32) || ends.element().isInteger(64));
}

/// result = .. (x, weight, ends).
static bool importGroupedMatmul(Node &node) {
  Tensor x = node.input(0), weight = node.input(1), ends = node.input(2);
  if (!areGroups(x, weight, ends) || weight.rank() != 3 || weight.dim(0) != ends.dim(0) ||
      weight.dim(1) != x.dim(1))
    return false;
  auto type = RankedTensorType::get({x.dim(0), weight.dim(2)}, x.element());
  auto turned = weight.getDefiningOp<nn::TransposeOp>();
  bool transposes = turned && turned.getPerm() == ArrayRef<int64_t>{0, 2, 1};
  Value matrices = transposes ? turned.getInput() : Value(weight);
  Tensor result =
      node.create<nn::GroupedMatmulOp>(type, x, matrices, ends, transposes, IntegerAttr());
  return result && succeeded(node.give(result));
}

/// result = .. (x, grad, ends): the gradient of the weight of grouped_mm(x, weight, ends).
static bool importGroupedMatmulGradient(Node &node) {
  Tensor x = node.input(0), grad = node.input(1), ends = node.input(2);
  if (!areGroups(x, grad, ends) || grad.rank() != 2 || grad.dim(0) != x.dim(0))
    return false;
  auto type = RankedTensorType::get({ends.dim(0), x.dim(1), grad.dim(1)}, x.element());
  Tensor result = node.create<nn::GroupedMatmulGradOp>(type, x, grad, ends, IntegerAttr());
  return result && succeeded(node.give(result));
}

// The remark on a function with another body has its digest.
static constexpr WholeFunction kFunctions[] = {
    {"_log_softmax_backward_data",
     "e896bad3bfa916f3e86a56620faea94fd1f55cfba6f8298dea327d0fd931bcdd", 2,
     importLogSoftmaxGradient},
    {"_scaled_dot_product_flash_attention_for_cpu",
     "fea04767ac2833c12de9dee308dd2c9835039e505c83098cde8262cc2f81919c", 3, importAttention<false>},
    {"_scaled_dot_product_flash_attention_for_cpu_backward",
     "535949c65e48e73bd13eea0f6a4c41821c2a8e79c68df8c053fd14dbc883800f", 6,
     importAttentionGradient<false>},
    {"_scaled_dot_product_flash_attention_for_cpu_backward_masked",
     "0e01526502d55b55bd5f22d7f093f86a2d36c8d07271c1324383e4bea08bc151", 7,
     importAttentionGradient<true>},
    {"_scaled_dot_product_flash_attention_for_cpu_masked",
     "bd879b52448fe1653607e97ecafe2ff429b03829de9940673875da4fbb1de378", 4, importAttention<true>},
    {"embedding_dense_backward", "972e2dcba0c19e8d5f9db646acb6646f6cae85d3e8c62ca913762ccbcbd4a1e4",
     2, importEmbeddingGradient},
    {"grouped_mm", "43fdb1ad0c729086d3ac3ffd64a2d06dfea4c3523afdd6434d9506fea3095935", 3,
     importGroupedMatmul},
    {"grouped_mm_weights", "d00baaf27305434d64fe6c34f439bd2b616c901a9db6890a7eac4e6563e2e589", 3,
     importGroupedMatmulGradient},
    {"native_layer_norm_backward",
     "2e4e5bfe8910569e1fcb311fc96387de242a17494b719ed331d72552b2351dbc", 5,
     importLayerNormGradient},
    {"nll_loss_backward", "7fbbbab3c43553bba2678da7d370e4a9d539827950713cab6a601d7c1847d9b7", 4,
     noteLossGradient},
    {"nll_loss_forward", "ac20db45cb9abd0d82e96fcab4fe986a72a0b81d9a72fccb52023c8c87500b8d", 2,
     importLoss},
};

bool WholeFunction::import(Node &node) const {
  auto isThere = [&](int i) { return node.has(i) && node.input(i); };
  return llvm::all_of(llvm::seq(0, operands), isThere) && read(node);
}

const WholeFunction *onnx::findWholeFunction(StringRef name) {
  const auto *found = llvm::find_if(
      kFunctions, [&](const WholeFunction &function) { return function.name == name; });
  return found == std::end(kFunctions) ? nullptr : found;
}
