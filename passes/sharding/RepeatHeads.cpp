//===- RepeatHeads.cpp - Repeats key heads for tensor ranks ---------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Attention.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Parts.h"
#include "passes/sharding/Passes.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_REPEATHEADSPASS
#include "passes/sharding/Passes.h.inc"

/// Returns how often key heads are repeated so that the ranks divide them: once for a single one,
/// whose query heads can be split as they are; 0 if all stays as it is.
static int64_t copiesFor(nn::AttentionOp op, int64_t ranks) {
  int64_t heads = cast<RankedTensorType>(op.getQuery().getType()).getDimSize(1);
  int64_t keys = cast<RankedTensorType>(op.getKey().getType()).getDimSize(1);
  if (keys % ranks == 0 || heads % ranks != 0)
    return 0;
  if (keys == 1)
    return 1;
  int64_t most = heads / keys; // query heads per key head
  for (int64_t copies = 2; copies <= most; ++copies)
    if (most % copies == 0 && keys * copies % ranks == 0)
      return copies;
  return 0;
}

/// Returns the nearest matmuls that a value is computed from.
static llvm::SetVector<nn::MatmulOp> matmulsOf(Value value) {
  llvm::SetVector<nn::MatmulOp> matmuls;
  SmallVector<Value> work{value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    if (auto matmul = dyn_cast<nn::MatmulOp>(op)) {
      matmuls.insert(matmul);
      continue;
    }
    for (Value operand : op->getOperands())
      if (seen.insert(operand).second)
        work.push_back(operand);
  }
  return matmuls;
}

/// Returns the parameter that a matmul multiplies with; null if it is none.
static nn::StateOp weightOf(nn::MatmulOp matmul) {
  for (Value operand : matmul->getOperands()) {
    while (Operation *op = operand.getDefiningOp()) {
      if (op->getNumOperands() != 1)
        break;
      operand = op->getOperand(0);
    }
    auto argument = dyn_cast<BlockArgument>(operand);
    if (nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
        state && state.getRole() == nn::Role::Param)
      return state;
  }
  return {};
}

/// Returns the parameters that keys and values are computed with. Empty if they are not
/// parameters alone, if queries are computed with one of them, or if the user splits one.
static llvm::SetVector<nn::StateOp> weightsOf(nn::AttentionOp op) {
  llvm::SetVector<nn::StateOp> weights;
  llvm::SetVector<nn::MatmulOp> queries = matmulsOf(op.getQuery());
  for (Value value : {Value(op.getKey()), Value(op.getValue())})
    for (nn::MatmulOp matmul : matmulsOf(value)) {
      nn::StateOp weight = weightOf(matmul);
      auto typed = weight ? weight->getAttrOfType<dist::TensorSplitAttr>(dist::kTensorAttr)
                          : dist::TensorSplitAttr();
      if (!weight || queries.contains(matmul) ||
          (typed && typed.getValue() != dist::TensorSplit::Whole))
        return {};
      weights.insert(weight);
    }
  return weights;
}

/// Repeats each of the heads of [batch, heads, positions, size]. The matmul with zeros and ones is
/// exact, and its sharding rule says what is needed: ranks that split the result read the heads
/// whole, and gradients of the heads are partial sums. Where ranks split positions, these are
/// gathered before the heads are repeated.
static Value repeated(OpBuilder &b, Location loc, Value value, int64_t copies) {
  auto type = cast<RankedTensorType>(value.getType());
  value = dist::ConstrainOp::create(b, loc, type, value,
                                    dist::ShardingAttr::replicated(b.getContext(), type.getRank()));
  int64_t batch = type.getDimSize(0), heads = type.getDimSize(1);
  int64_t each = type.getDimSize(2) * type.getDimSize(3);
  auto index = RankedTensorType::get({batch, heads, copies, heads}, b.getI64Type());
  Value same =
      nn::CompareOp::create(b, loc, index.clone(b.getI1Type()), nn::Predicate::EQ,
                            nn::IotaOp::create(b, loc, index, b.getI64IntegerAttr(1)).getResult(),
                            nn::IotaOp::create(b, loc, index, b.getI64IntegerAttr(3)).getResult());
  RankedTensorType numbers = index.clone(type.getElementType());
  Value ones = nn::SelectOp::create(b, loc, same, nn::splat(b, loc, numbers, 1),
                                    nn::splat(b, loc, numbers, 0));
  Value selection =
      nn::ReshapeOp::create(b, loc, numbers.clone({batch, heads * copies, heads}), ones);
  Value flat = nn::ReshapeOp::create(b, loc, type.clone({batch, heads, each}), value);
  Value matmul =
      nn::MatmulOp::create(b, loc, type.clone({batch, heads * copies, each}), selection, flat);
  return nn::ReshapeOp::create(
      b, loc, type.clone({batch, heads * copies, type.getDimSize(2), type.getDimSize(3)}), matmul);
}

static void repeatHeads(nn::AttentionOp op, int64_t copies) {
  CopyAttributes attributes;
  attributes.current = op;
  OpBuilder builder(op.getContext(), &attributes);
  builder.setInsertionPoint(op);
  bool one = op.getKey() == op.getValue();
  op.getKeyMutable().assign(repeated(builder, op.getLoc(), op.getKey(), copies));
  op.getValueMutable().assign(one ? op.getKey()
                                  : repeated(builder, op.getLoc(), op.getValue(), copies));
}

/// Marks the parameters of keys and values as whole on each rank.
static void keepWhole(const llvm::SetVector<nn::StateOp> &weights, const std::string &why) {
  for (nn::StateOp weight : weights) {
    MLIRContext *context = weight->getContext();
    weight->setAttr(dist::kTensorAttr,
                    dist::TensorSplitAttr::get(context, dist::TensorSplit::Whole));
    weight->setAttr(dist::kPlanAttr, StringAttr::get(context, kStaysWhole + "its " + why));
  }
}

namespace {
struct RepeatHeadsPass : impl::RepeatHeadsPassBase<RepeatHeadsPass> {
  using RepeatHeadsPassBase::RepeatHeadsPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    int64_t ranks = tensorRanks(dist::getMesh(module));
    if (ranks == 1)
      return;
    for (auto function : module.getOps<func::FuncOp>())
      for (nn::AttentionOp op : llvm::to_vector(function.getOps<nn::AttentionOp>())) {
        int64_t copies = copiesFor(op, ranks);
        llvm::SetVector<nn::StateOp> weights = weightsOf(op);
        if (copies == 0 || weights.empty())
          continue;
        int64_t keys = cast<RankedTensorType>(op.getKey().getType()).getDimSize(1);
        std::string text = keys == 1 ? std::string("key head serves all")
                                     : std::to_string(keys) + " key heads are repeated " +
                                           std::to_string(copies) + " times for";
        text += " " + std::to_string(ranks) + " tensor ranks";
        if (copies > 1)
          repeatHeads(op, copies);
        keepWhole(weights, text);
        emitDecision(op.getLoc(), "repeat-heads", text);
      }
  }
};
} // namespace

} // namespace shale
