//===- CallAttention.cpp - Leaves attention to a library ------------------===//
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Sdpa.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "passes/fusion/Passes.h"

namespace shale {
#define GEN_PASS_DEF_CALLATTENTIONPASS
#include "passes/fusion/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;

/// The transposition between [B, H, T, D] and [B, T, H, D], which is its own inverse.
static constexpr int64_t kExchange[] = {0, 2, 1, 3};

static bool isExchange(Operation *op) {
  auto transpose = dyn_cast_or_null<nn::TransposeOp>(op);
  return transpose && transpose.getPerm() == ArrayRef<int64_t>(kExchange);
}

static RankedTensorType exchanged(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  ArrayRef<int64_t> shape = tensor.getShape();
  return tensor.clone({shape[0], shape[2], shape[1], shape[3]});
}

namespace {

/// Exchanges positions and heads of values. Transpositions that did so are undone, rotations of
/// positions are exchanged with what they rotate, and each value is exchanged once.
class Exchanger {
public:
  explicit Exchanger(MLIRContext *context) : b(context, &listener) {}

  /// Returns a value as an operand of an op in place of `op`.
  Value operand(Operation *op, Value value) {
    Operation *source = value.getDefiningOp();
    if (isExchange(source))
      return source->getOperand(0);
    if (Value made = known.lookup(value))
      return made;
    Value made;
    if (auto rope = dyn_cast_or_null<nn::RopeOp>(source); rope && !rope.getHeaded()) {
      made = rotate(rope, operand(rope, rope.getInput()));
    } else {
      listener.current = source ? source : op;
      b.setInsertionPointAfterValue(value);
      made = transpose(value);
    }
    known[value] = made;
    return made;
  }

  /// Lets the users of `old` read `value`, which is `old` exchanged.
  void replace(Value old, Value value) {
    for (Operation *user : llvm::make_early_inc_range(old.getUsers())) {
      if (isExchange(user)) {
        user->getResult(0).replaceAllUsesWith(value);
        user->erase();
      } else if (auto rope = dyn_cast<nn::RopeOp>(user);
                 rope && !rope.getHeaded() && rope.getInput() == old) {
        replace(rope, rotate(rope, value));
        known.erase(rope.getResult());
        rope.erase();
      }
    }
    if (old.use_empty())
      return;
    listener.current = value.getDefiningOp();
    b.setInsertionPointAfterValue(value);
    old.replaceAllUsesWith(transpose(value));
  }

  /// Returns a builder of ops that take the place of `op`.
  OpBuilder &at(Operation *op) {
    listener.current = op;
    b.setInsertionPoint(op);
    return b;
  }

private:
  Value transpose(Value value) {
    return nn::TransposeOp::create(b, value.getLoc(), exchanged(value.getType()), value, kExchange);
  }
  Value rotate(nn::RopeOp rope, Value value) {
    at(rope);
    return nn::RopeOp::create(b, rope.getLoc(), value.getType(), value, rope.getCos(),
                              rope.getSin(), rope.getInterleaved(), rope.getInverse(),
                              /*headed=*/true);
  }

  CopyAttributes listener;
  OpBuilder b;
  DenseMap<Value, Value> known;
};

} // namespace

/// Returns what of an attention no library computes, or an empty text.
template <typename OpT> static StringRef findUnsupported(OpT op) {
  if (op.getMask() || op.getSeen())
    return "it has a mask other than the causal one";
  if (op.getWindow() && !op.getCausal())
    return "it has a window and is not causal";
  if (op.getDropoutAttr())
    return "it drops probabilities";
  if (op.getCausal() && cast<RankedTensorType>(op.getQuery().getType()).getDimSize(2) !=
                            cast<RankedTensorType>(op.getKey().getType()).getDimSize(2))
    return "it is causal with other numbers of queries and keys";
  return "";
}

/// Returns the concatenation that is the only reader of all gradients, perhaps after a reshape, and
/// that joins their rows, the features of all heads of a position, in order; else null.
static nn::ConcatOp joinOf(nn::SdpaGradOp op) {
  auto q = cast<RankedTensorType>(op.getQuery().getType());
  if (op.getKey().getType() != op.getValue().getType() ||
      cast<RankedTensorType>(op.getKey().getType()).getDimSize(1) != q.getDimSize(1))
    return {};
  nn::ConcatOp concat;
  for (auto [number, gradient] : llvm::enumerate(op.getGradients())) {
    Value read = gradient;
    if (!read.hasOneUse())
      return {};
    if (auto reshape = dyn_cast<nn::ReshapeOp>(*read.user_begin()))
      read = reshape.getResult();
    if (!read.hasOneUse())
      return {};
    auto reader = dyn_cast<nn::ConcatOp>(*read.user_begin());
    if (!reader || (concat && reader != concat) || reader.getInputs().size() != 3 ||
        reader.getInputs()[number] != read)
      return {};
    concat = reader;
  }
  ArrayRef<int64_t> shape = cast<RankedTensorType>(concat.getType()).getShape();
  int64_t rows = 1;
  for (int64_t size : shape.take_front(concat.getDim()))
    rows *= size;
  return rows == q.getDimSize(0) * q.getDimSize(1) ? concat : nn::ConcatOp();
}

namespace {

class Caller {
public:
  Caller(const Target &target, bool deterministic, MLIRContext *context)
      : target(target), deterministic(deterministic), exchanger(context) {}

  void run(func::FuncOp function) {
    SmallVector<Operation *> attentions;
    function.walk([&](Operation *op) {
      if (isa<nn::AttentionOp, nn::AttentionGradOp>(op) && !target.hasOwnKernel(op))
        attentions.push_back(op);
    });
    for (Operation *op : attentions)
      if (auto attention = dyn_cast<nn::AttentionOp>(op))
        replace(attention);
      else
        replace(cast<nn::AttentionGradOp>(op));
    // Transpositions and rotations that only the replaced ops read.
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : llvm::reverse(ops))
      if ((isExchange(op) || isa<nn::RopeOp>(op)) && op->use_empty())
        op->erase();
  }

private:
  Operation *build(nn::AttentionOp op) {
    Value q = exchanger.operand(op, op.getQuery()), k = exchanger.operand(op, op.getKey()),
          v = exchanger.operand(op, op.getValue());
    return nn::SdpaOp::create(exchanger.at(op), op.getLoc(), exchanged(op.getResult().getType()),
                              op.getLse().getType(), q, k, v, op.getCausalAttr(),
                              op.getWindowAttr(), op.getScaleAttr());
  }

  Operation *build(nn::AttentionGradOp op) {
    Value q = exchanger.operand(op, op.getQuery()), k = exchanger.operand(op, op.getKey()),
          v = exchanger.operand(op, op.getValue()), o = exchanger.operand(op, op.getOutput()),
          grad = exchanger.operand(op, op.getGrad());
    OpBuilder &b = exchanger.at(op);
    return nn::SdpaGradOp::create(b, op.getLoc(), TypeRange{q.getType(), k.getType(), v.getType()},
                                  q, k, v, o, op.getLse(), grad, op.getCausalAttr(),
                                  op.getWindowAttr(), deterministic ? b.getUnitAttr() : UnitAttr(),
                                  op.getScaleAttr());
  }

  template <typename OpT> void replace(OpT op) {
    StringRef reason = findUnsupported(op);
    Operation *call = reason.empty() ? build(op) : nullptr;
    if (call && !target.isLibraryCall(call)) {
      reason = "no library that this build calls has its types and sizes";
      call->erase();
    }
    if (!reason.empty()) {
      emitDecision(op.getLoc(), "call-attention",
                   "attention is computed by products and generated kernels: " + reason);
      return;
    }
    for (auto [old, made] : llvm::zip(op->getResults(), call->getResults()))
      if (cast<RankedTensorType>(old.getType()).getRank() == 4)
        exchanger.replace(old, made);
      else
        old.replaceAllUsesWith(made);
    op->erase();
    if (auto gradient = dyn_cast<nn::SdpaGradOp>(call))
      pack(gradient);
  }

  /// Replaces the gradients by one tensor if they are only joined, one after another for each
  /// position.
  void pack(nn::SdpaGradOp op) {
    nn::ConcatOp concat = joinOf(op);
    if (!concat)
      return;
    auto q = cast<RankedTensorType>(op.getQuery().getType());
    int64_t heads =
        q.getDimSize(2) + 2 * cast<RankedTensorType>(op.getKey().getType()).getDimSize(2);
    auto type = q.clone({q.getDimSize(0), q.getDimSize(1), heads, q.getDimSize(3)});
    auto packed = nn::SdpaGradOp::create(exchanger.at(op), op.getLoc(), TypeRange{type},
                                         op->getOperands(), op->getAttrs());
    Value joined = packed.getGradients()[0];
    if (joined.getType() != concat.getType())
      joined =
          nn::ReshapeOp::create(exchanger.at(concat), concat.getLoc(), concat.getType(), joined);
    concat.replaceAllUsesWith(joined);
    SmallVector<Operation *> readers(op->getUsers());
    concat.erase();
    for (Operation *reader : readers)
      if (reader != concat)
        reader->erase();
    op.erase();
  }

  const Target &target;
  bool deterministic;
  Exchanger exchanger;
};

struct CallAttentionPass : shale::impl::CallAttentionPassBase<CallAttentionPass> {
  using CallAttentionPassBase::CallAttentionPassBase;
  void runOnOperation() override {
    const Target *target = targetOf(getOperation());
    if (!target)
      return signalPassFailure();
    for (auto function : getOperation().getOps<func::FuncOp>())
      Caller(*target, deterministic, &getContext()).run(function);
  }
};

} // namespace
