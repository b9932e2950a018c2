//===- Trace.cpp - What a value is computed from --------------------------===//
#include "lib/Frontend/ONNX/Trace.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static RankedTensorType tensor(Value value) { return cast<RankedTensorType>(value.getType()); }

void onnx::walkBack(Value value, llvm::function_ref<bool(Value)> visit) {
  llvm::SetVector<Value> work;
  work.insert(value);
  for (size_t i = 0; i < work.size(); ++i)
    if (Operation *op = visit(work[i]) ? work[i].getDefiningOp() : nullptr)
      work.insert(op->operand_begin(), op->operand_end());
}

llvm::SetVector<BlockArgument> onnx::argumentsBehind(Value value) {
  llvm::SetVector<BlockArgument> found;
  walkBack(value, [&](Value next) {
    if (auto argument = dyn_cast<BlockArgument>(next))
      found.insert(argument);
    return true;
  });
  return found;
}

std::string onnx::parameterBehind(const States &states, Value value) {
  std::string name;
  walkBack(value, [&](Value next) {
    if (const Parameter *state = states.of(next); name.empty() && state && state->isParameter)
      name = displayName(state->name);
    return name.empty() && !isa_and_nonnull<nn::StopGradientOp>(next.getDefiningOp());
  });
  return name;
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

Origin onnx::traceTokens(Value value, int depth) {
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

std::optional<int64_t> onnx::traceLogits(Value value) {
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

//===----------------------------------------------------------------------===//
// Which size of a flag an error may come from
//===----------------------------------------------------------------------===//

/// A table has fewer than this many rows beyond its positions (OPT has two).
static constexpr int64_t kMoreRows = 8;

std::string onnx::positionsHint(const ImportOptions &options, const States &states,
                                ArrayRef<Value> tables, int64_t has, int64_t wants) {
  // The largest --dim that may be the size of `wants` positions.
  const llvm::StringMapEntry<int64_t> *dim = nullptr;
  for (const auto &entry : options.dims)
    if (entry.getKey() != "batch" && entry.getValue() <= wants &&
        wants - entry.getValue() < std::min(kMoreRows, has) &&
        (!dim || entry.getValue() > dim->getValue()))
      dim = &entry;
  if (!dim || has >= wants)
    return "";
  std::string name;
  for (Value table : tables) {
    if (!table)
      continue;
    for (BlockArgument argument : argumentsBehind(table))
      if (const Parameter *state = states.of(argument);
          state && llvm::is_contained(tensor(argument).getShape(), has))
        name = " ('" + displayName(state->name) + "')";
  }
  int64_t spare = wants - dim->getValue();
  return "the model has " + std::to_string(has - spare) + " positions" + name + ": lower --dim " +
         displayName(dim->getKey()) + " to " + std::to_string(has - spare) + " at most";
}

std::string onnx::broadcastHint(const ImportOptions &options, const States &states,
                                ArrayRef<Value> values, int64_t one, int64_t other) {
  int64_t least = std::min(one, other), most = std::max(one, other);
  if (llvm::none_of(options.dims, [&](auto &entry) { return entry.getValue() == most; }))
    return "";
  SmallVector<Value> tables;
  for (Value value : values) // the smaller size is the model's
    if (llvm::is_contained(tensor(value).getShape(), least))
      tables.push_back(value);
  std::string hint = positionsHint(options, states, tables, least, most);
  return hint.empty() ? "" : ". Perhaps " + hint;
}
