//===- UnbindLabels.cpp - Labels that a model could copy ------------------===//
//
// A model whose attention reads later positions would copy next tokens from its
// input. The test is by structure: a mask hides later positions only if it
// compares positions, or is a constant or an input with a value for each pair of
// positions. A bias from a table, and a mask of padding, hide none.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Bindings.h"
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Norm.h"
#include "lib/Analysis/Origins.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/import/Matchers.h"
#include "passes/import/Passes.h"

namespace shale {
#define GEN_PASS_DEF_UNBINDLABELSPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

static bool isInteger(Value value) {
  Type element = tensor(value).getElementType();
  return !isa<FloatType>(element) && !element.isInteger(1);
}

/// Whether the last two dimensions are pairs of positions.
static bool hasPairs(Value value) {
  ArrayRef<int64_t> shape = tensor(value).getShape();
  return shape.size() >= 2 && shape.back() > 1 && shape[shape.size() - 2] > 1;
}

static bool readsPositions(Operation *op) {
  bool found = false;
  for (Value operand : op->getOperands())
    walkBack(operand, [&](Value value) {
      return !(found |= isa_and_nonnull<nn::IotaOp>(value.getDefiningOp()));
    });
  return found;
}

/// Whether a mask, or scores with a mask, may hide later positions.
static bool mayHideLater(Value mask) {
  bool hides = false;
  walkBack(mask, [&](Value value) {
    if (hides || isInteger(value)) // indices
      return false;
    Operation *op = value.getDefiningOp();
    if (auto constant = dyn_cast_or_null<nn::ConstantOp>(op))
      hides = hasPairs(value) && !constant.getValue().isSplat();
    else if (isa_and_nonnull<nn::CompareOp>(op))
      hides = readsPositions(op);
    else if (!op)
      hides = hasPairs(value); // also a parameter: a file may not tell masks from these
    return op && !isa<nn::CompareOp, nn::MatmulOp, nn::EmbeddingOp, nn::SoftmaxOp>(op);
  });
  return hides;
}

static bool seesLater(nn::AttentionOp attention) {
  ArrayRef<int64_t> query = tensor(attention.getQuery()).getShape(),
                    key = tensor(attention.getKey()).getShape();
  if (attention.getCausal() || attention.getWindow() == 1 || query[2] != key[2] || query[2] < 2)
    return false;
  return llvm::all_of(llvm::drop_begin(attention->getOperands(), 3), [](Value mask) {
    return tensor(mask).getRank() != 4 || tensor(mask).getDimSize(2) == 1 || !mayHideLater(mask);
  });
}

/// Whether this is the softmax of an attention that was not recovered, over all positions: of
/// scores [.., T, T], and multiplied with values.
static bool seesLater(nn::SoftmaxOp softmax) {
  ArrayRef<int64_t> shape = tensor(softmax.getResult()).getShape();
  if (shape.size() < 3 || shape.back() < 2 || shape.back() != shape[shape.size() - 2])
    return false;
  SmallVector<Operation *> work(softmax->getUsers());
  bool isMultiplied = false;
  for (int left = 32; !work.empty() && left > 0 && !isMultiplied; --left) {
    Operation *user = work.pop_back_val();
    isMultiplied = isa<nn::MatmulOp>(user);
    if (user->getNumResults() == 1 && hasPairs(user->getResult(0)))
      llvm::append_range(work, user->getUsers());
  }
  return isMultiplied && !mayHideLater(softmax.getInput());
}

/// Whether an op is a row of a window, as convolutions have, that reaches to later positions:
/// element t of its result is element t + 1 or later of its operand's, which is padded at the end.
static bool isLaterRow(Operation *op) {
  auto slice = dyn_cast<nn::SliceOp>(op);
  auto pad = slice ? slice.getInput().getDefiningOp<nn::PadOp>() : nn::PadOp();
  if (!pad || !isa<FloatType>(slice.getType().getElementType()))
    return false;
  ArrayRef<int64_t> shape = pad.getInput().getType().getShape();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] > 1 && pad.getHigh()[dim] > 0 && slice.getStrides()[dim] == 1 &&
        slice.getStarts()[dim] > pad.getLow()[dim] && slice.getType().getDimSize(dim) == shape[dim])
      return true;
  return false;
}

/// Whether an op reads embedded tokens at later positions, in the window of a convolution.
static bool isLaterRowOfTokens(Operation &op) {
  bool isEmbedded = false;
  if (isLaterRow(&op))
    walkBack(op.getOperand(0), [&](Value value) {
      return !(isEmbedded |= isa_and_nonnull<nn::EmbeddingOp>(value.getDefiningOp()));
    });
  return isEmbedded;
}

/// Whether an embedding reads the labels as tokens, too.
static bool isLookedUp(func::FuncOp forward, BlockArgument label) {
  bool found = false;
  for (auto embedding : forward.getOps<nn::EmbeddingOp>())
    walkBack(embedding.getIndices(), [&](Value value) { return !(found |= value == label); });
  return found;
}

namespace {

/// Facts about a forward function that decide whether its labels stay bound.
struct Finding {
  bool hasTokens; // whether an input that is no label has tokens
  bool attends;   // attention reads later positions
  bool later;     // attention or a window does
};

} // namespace

static bool isLabel(func::FuncOp forward, unsigned argument) {
  auto role = forward.getArgAttrOfType<nn::RoleAttr>(argument, nn::kRoleAttr);
  return role && role.getValue() == nn::Role::Label;
}

static Finding look(func::FuncOp forward) {
  Finding found;
  found.hasTokens = llvm::any_of(llvm::seq(forward.getNumArguments()), [&](unsigned i) {
    return nn::readsTokens(nn::getBinding(forward, i)) && !isLabel(forward, i);
  });
  auto reads = [](auto op) { return seesLater(op); };
  found.attends = llvm::any_of(forward.getOps<nn::AttentionOp>(), reads) ||
                  llvm::any_of(forward.getOps<nn::SoftmaxOp>(), reads);
  found.later = found.attends || llvm::any_of(forward.getOps(), isLaterRowOfTokens);
  return found;
}

namespace {

struct UnbindLabelsPass : shale::impl::UnbindLabelsPassBase<UnbindLabelsPass> {
  using UnbindLabelsPassBase::UnbindLabelsPassBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward || forward.isExternal())
      return;
    Finding found = look(forward);
    if (!found.later && found.hasTokens)
      return;
    for (unsigned i : llvm::seq(forward.getNumArguments())) {
      auto name = forward.getArgAttrOfType<StringAttr>(i, nn::kNameAttr);
      if (name && isLabel(forward, i) && forward.getArgAttr(i, nn::kBindingAttr) &&
          !llvm::is_contained(bound, name.getValue()) &&
          !isLookedUp(forward, forward.getArgument(i)))
        unbind(forward, i, name.str(), found);
    }
  }

private:
  void unbind(func::FuncOp forward, unsigned argument, const std::string &label, Finding found) {
    forward.removeArgAttr(argument, nn::kBindingAttr);
    std::string text = std::string(!found.hasTokens ? "no other input has tokens"
                                   : found.attends  ? "attention also reads later positions"
                                                    : "a window also reads later positions") +
                       ": labels '" + label + "' come from the data file";
    getOperation()->setAttr(nn::kLossAttr, StringAttr::get(&getContext(), text));
    if (found.hasTokens)
      text +=
          " (next tokens would be copied; --bind " + label + "=tokens+1 takes them nevertheless)";
    emitNote(getOperation().getLoc(), text);
  }
};

} // namespace
