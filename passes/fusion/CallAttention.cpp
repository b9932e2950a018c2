//===- CallAttention.cpp - Leaves attention to a library ------------------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Sdpa.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "passes/fusion/Passes.h"
#include "passes/fusion/Reshapes.h"

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

/// Transposes values between [B, H, T, D] and [B, T, H, D], each once. Bypasses transposes that
/// undo this, and moves the transpose of a rotated value above the rotation, and that of a kept
/// value below its barrier.
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

  /// Lets the users of `old` read `value`, which is `old` with heads and positions transposed.
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
      } else if (auto barrier = dyn_cast<mem::BarrierOp>(user)) {
        keep(barrier, old, value);
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
  /// Lets a barrier return `value` instead of `old`, which its readers may not need.
  void keep(mem::BarrierOp barrier, Value old, Value value) {
    for (auto [operand, result] : llvm::zip(barrier->getOpOperands(), barrier->getResults())) {
      if (operand.get() != old)
        continue;
      operand.set(value);
      result.setType(value.getType());
      at(barrier);
      b.setInsertionPointAfter(barrier);
      Value back = transpose(result);
      result.replaceAllUsesExcept(back, back.getDefiningOp());
      replace(back, result);
    }
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

/// Returns why no library computes the attention, or an empty string.
template <typename OpT> static StringRef findUnsupported(OpT op) {
  if (op.getMask() || op.getSeen())
    return "it has a mask other than the causal one";
  if (op.getWindow() && !op.getCausal())
    return "it has a window and is not causal";
  if (op.getDropoutAttr())
    return "it drops probabilities";
  if (op.getCausal() && cast<RankedTensorType>(op.getQuery().getType()).getDimSize(2) !=
                            cast<RankedTensorType>(op.getKey().getType()).getDimSize(2))
    return "it is causal, but has different numbers of queries and keys";
  return "";
}

/// Returns the concatenation that is the only reader of all gradients, perhaps after a reshape, and
/// that joins their rows, the features of all heads of a position, in order; else null.
static nn::ConcatOp joinOf(nn::SdpaGradOp op) {
  nn::AttentionSizes s = op.getSizes();
  if (!s.canPack())
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
  return rows == s.batch * s.length ? concat : nn::ConcatOp();
}

namespace {

/// A part of each row of a tensor, where the rows of elements follow one another.
struct RowPart {
  Value source;
  int64_t rows = 0, width = 0, begin = 0, end = 0; // rows, and elements of a row

  /// Matches a slice, perhaps reshaped.
  static std::optional<RowPart> match(Value value) {
    auto slice = throughReshapes(value).getDefiningOp<nn::SliceOp>();
    if (!slice)
      return std::nullopt;
    ArrayRef<int64_t> shape = cast<RankedTensorType>(slice.getInput().getType()).getShape();
    RowPart part{throughReshapes(slice.getInput()), 1, 1, 0, 1};
    bool found = false;
    for (auto [size, start, limit, stride] :
         llvm::zip(shape, slice.getStarts(), slice.getLimits(), slice.getStrides())) {
      bool cut = start != 0 || limit != size;
      if (stride != 1 || (cut && found))
        return std::nullopt;
      if (cut)
        part.begin = start, part.end = limit, part.width = size;
      else if (found)
        part.begin *= size, part.end *= size, part.width *= size;
      else
        part.rows *= size;
      found |= cut;
    }
    return found ? std::optional(part) : std::nullopt;
  }
};

} // namespace

/// Returns the tensor whose rows, one for each position, are the heads of query, key and value one
/// after another, or null.
static Value packOf(ValueRange inputs, const nn::AttentionSizes &s) {
  if (!s.canPack())
    return {};
  int64_t counts[] = {s.heads, s.keyHeads, s.keyHeads}, end = 0;
  Value source;
  for (auto [input, heads] : llvm::zip(inputs, counts)) {
    std::optional<RowPart> part = RowPart::match(input);
    int64_t begin = end;
    end += heads * s.depth;
    if (!part || (source && part->source != source) || part->rows != s.batch * s.length ||
        part->width != (s.heads + 2 * s.keyHeads) * s.depth || part->begin != begin ||
        part->end != end)
      return {};
    source = part->source;
  }
  return source;
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
    // Ops that only the replaced ops read.
    SmallVector<Operation *> ops;
    function.walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : llvm::reverse(ops))
      if ((isExchange(op) || isa<nn::RopeOp, nn::ReshapeOp, nn::SliceOp>(op)) && op->use_empty())
        op->erase();
  }

private:
  /// Returns query, key and value as a call reads them.
  template <typename OpT> SmallVector<Value> inputsOf(OpT op) {
    SmallVector<Value> inputs;
    for (Value value : {op.getQuery(), op.getKey(), op.getValue()})
      inputs.push_back(exchanger.operand(op, value));
    auto s = nn::AttentionSizes::get(TypeRange(inputs), exchanged(typeOfResult(op)));
    Value source = packOf(inputs, s);
    if (!source)
      return inputs;
    Type type = s.packedType(cast<RankedTensorType>(source.getType()));
    if (source.getType() == type)
      return {source};
    return {nn::ReshapeOp::create(exchanger.at(op), op.getLoc(), type, source)};
  }
  static Type typeOfResult(nn::AttentionOp op) { return op.getResult().getType(); }
  static Type typeOfResult(nn::AttentionGradOp op) { return op.getOutput().getType(); }

  Operation *build(nn::AttentionOp op) {
    SmallVector<Value> inputs = inputsOf(op);
    return nn::SdpaOp::create(exchanger.at(op), op.getLoc(), exchanged(op.getResult().getType()),
                              op.getLse().getType(), inputs, op.getCausalAttr(), op.getWindowAttr(),
                              op.getScaleAttr());
  }

  Operation *build(nn::AttentionGradOp op) {
    SmallVector<Value> inputs = inputsOf(op);
    Value o = exchanger.operand(op, op.getOutput()), grad = exchanger.operand(op, op.getGrad());
    SmallVector<Type> types;
    for (Value gradient : op->getResults())
      types.push_back(exchanged(gradient.getType()));
    OpBuilder &b = exchanger.at(op);
    return nn::SdpaGradOp::create(b, op.getLoc(), types, inputs, o, op.getLse(), grad,
                                  op.getCausalAttr(), op.getWindowAttr(),
                                  deterministic ? b.getUnitAttr() : UnitAttr(), op.getScaleAttr());
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
                   "attention is computed by matmuls and generated kernels: " + reason);
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
    Type type = op.getSizes().packedType(cast<RankedTensorType>(op.getOutput().getType()));
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
