//===- Origins.cpp - What a value is computed from ------------------------===//
#include "lib/Analysis/Origins.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"

using namespace mlir;
using namespace shale;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

void shale::walkBack(Value value, llvm::function_ref<bool(Value)> visit) {
  llvm::SetVector<Value> work;
  work.insert(value);
  for (size_t i = 0; i < work.size(); ++i)
    if (Operation *op = visit(work[i]) ? work[i].getDefiningOp() : nullptr)
      work.insert(op->operand_begin(), op->operand_end());
}

llvm::SetVector<BlockArgument> shale::argumentsBehind(Value value) {
  llvm::SetVector<BlockArgument> found;
  walkBack(value, [&](Value next) {
    if (auto argument = dyn_cast<BlockArgument>(next))
      found.insert(argument);
    return true;
  });
  return found;
}

/// Whether all `dims` except the last are zero.
static bool onlyLast(ArrayRef<int64_t> dims) {
  return llvm::all_of(dims.drop_back(), [](int64_t each) { return each == 0; });
}

/// Maximum depth of nested concatenations that are traced; handwritten code has one or two.
static constexpr int kMaxConcats = 6;

/// Returns the one of two values that depends on arguments; null if both do.
static Value variableOf(Value first, Value second) {
  bool known = argumentsBehind(first).empty();
  if (!known && !argumentsBehind(second).empty())
    return {};
  return known ? second : first;
}

/// Follows the longer of two joined parts. Ignored labels are appended, a first token is
/// prepended. A roll appends, too.
static Origin traceJoined(nn::ConcatOp concat, int depth) {
  ValueRange parts = concat.getInputs();
  if (depth == kMaxConcats || parts.size() != 2 ||
      concat.getDim() != uint64_t(tensor(concat.getResult()).getRank() - 1))
    return {};
  Origin front = traceTokens(parts[0], depth + 1), back = traceTokens(parts[1], depth + 1);
  if (front.argument && back.argument && front.argument != back.argument)
    return {};
  if (front.argument && tensor(parts[1]).getShape().back() <= tensor(parts[0]).getShape().back())
    return front;
  back.shift -= tensor(parts[0]).getShape().back();
  return back;
}

/// Returns the choice of a selection that holds the tokens; null if both may.
static Value traceSelected(nn::SelectOp select) {
  // Negative indices count from the end.
  auto sum = select.getOnTrue().getDefiningOp<nn::AddOp>();
  if (sum && sum.getLhs() == select.getOnFalse() && argumentsBehind(sum.getRhs()).empty())
    return select.getOnFalse();
  // One side is a constant: the ignored label.
  return variableOf(select.getOnFalse(), select.getOnTrue());
}

/// Returns the operand that holds the tokens of an op's result, and adds to `shift` how far the op
/// moves them; null if they cannot be followed.
static Value traceStep(Operation *op, int64_t &shift) {
  if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    if (slice.getStrides().back() != 1 || !onlyLast(slice.getStarts()))
      return {};
    shift += slice.getStarts().back();
    return slice.getInput();
  }
  if (auto pad = dyn_cast<nn::PadOp>(op)) {
    if (pad.getInterior().back() != 0 || !onlyLast(pad.getLow()))
      return {};
    shift -= pad.getLow().back();
    return pad.getInput();
  }
  if (isa<nn::ReshapeOp, nn::CastOp>(op))
    return op->getOperand(0);
  if (isa<nn::BroadcastOp>(op) && shift == 0)
    return op->getOperand(0);        // labels that are compared with each class
  if (isa<nn::MaxOp, nn::MinOp>(op)) // clamped: labels that are ignored must be classes, too
    return variableOf(op->getOperand(0), op->getOperand(1));
  auto select = dyn_cast<nn::SelectOp>(op);
  return select ? traceSelected(select) : Value();
}

Origin shale::traceTokens(Value value, int depth) {
  int64_t shift = 0;
  while (value) {
    if (auto argument = dyn_cast<BlockArgument>(value))
      return {argument, shift};
    Operation *op = value.getDefiningOp();
    if (auto concat = dyn_cast<nn::ConcatOp>(op)) {
      Origin joined = traceJoined(concat, depth);
      joined.shift += shift;
      return joined;
    }
    value = traceStep(op, shift);
  }
  return {};
}

std::optional<int64_t> shale::traceLogits(Value value) {
  int64_t cut = 0;
  bool turned = false;
  while (Operation *op = value.getDefiningOp()) {
    if (auto slice = dyn_cast<nn::SliceOp>(op)) {
      for (auto [dim, start] : llvm::enumerate(slice.getStarts())) {
        if (start == 0)
          continue;
        if (turned || int64_t(dim) != tensor(value).getRank() - 2)
          return std::nullopt;
        cut += start;
      }
    } else if (isa<nn::TransposeOp>(op)) {
      turned = true;
    } else if (!isa<nn::ReshapeOp, nn::CastOp, nn::MatmulOp>(op) &&
               !isa<ElementwiseOpInterface>(op)) {
      break;
    }
    value = op->getOperand(0);
  }
  return cut;
}
