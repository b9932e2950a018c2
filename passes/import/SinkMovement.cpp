//===- SinkMovement.cpp - Keeps the batch dimension in front --------------===//
//
// torch.nn.MultiheadAttention computes on [T, B, E]: it transposes its input, and
// its result back. This pass moves such a transpose below row-wise ops until it
// meets its inverse. The batch can then be split over ranks.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/import/Matchers.h"
#include "passes/import/Movement.h"
#include "passes/import/Passes.h"
#include <numeric>

namespace shale {
#define GEN_PASS_DEF_SINKMOVEMENTPASS
#include "passes/import/Passes.h.inc"
} // namespace shale

using namespace mlir;
using namespace shale;
using namespace shale::recover;

using Factors = SmallVector<int64_t>;

namespace {

/// Rebuilds a chain that moves the batch if fewer ops suffice.
template <typename Op> struct ShortenChain : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;
  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    Movement movement = Movement::of(op.getResult());
    if (!movement.turnsBatch || movement.cost() >= movement.length)
      return failure();
    rewriter.replaceOp(op, movement.build(rewriter, op));
    return success();
  }
};

/// Rewrites slice(transpose(x)) to transpose(slice(x)) if each sliced dimension is one factor.
struct SliceFirst : OpRewritePattern<nn::SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::SliceOp op, PatternRewriter &rewriter) const override {
    Movement movement = Movement::of(op.getInput());
    if (!movement.movesBatch())
      return failure();
    ArrayRef<int64_t> shape = tensor(op.getInput()).getShape();
    Factors limits = movement.sizes, starts(limits.size(), 0), strides(limits.size(), 1),
            sizes = limits;
    for (auto [dim, size] : llvm::enumerate(shape)) {
      if (tensor(op).getDimSize(dim) == size)
        continue;
      if (movement.to[dim].size() != 1)
        return failure();
      int64_t factor = movement.to[dim][0];
      starts[factor] = op.getStarts()[dim];
      limits[factor] = op.getLimits()[dim];
      strides[factor] = op.getStrides()[dim];
      sizes[factor] = tensor(op).getDimSize(dim);
    }
    Value split = movement.split(rewriter, op);
    auto slice = nn::SliceOp::create(rewriter, op.getLoc(),
                                     RankedTensorType::get(sizes, tensor(op).getElementType()),
                                     split, starts, limits, strides);
    inherit(op, slice);
    rewriter.replaceOp(op, movement.ofSplit(slice).build(rewriter, op));
    return success();
  }
};

/// Returns the value, with one dimension per factor, that `movement` turns into `operand`; null if
/// there is none. The operand is a splat, a broadcast along whole dimensions, or the result of the
/// same movement. Without `build` creates no ops and returns `operand` if there is such a value.
Value unmoved(const Movement &movement, Value operand, PatternRewriter &rewriter, Operation *like,
              bool build) {
  RankedTensorType type = RankedTensorType::get(movement.sizes, tensor(operand).getElementType());
  auto dense = operand.getDefiningOp<nn::ConstantOp>();
  if (auto splat = dense ? dyn_cast<SplatElementsAttr>(dense.getValue()) : SplatElementsAttr())
    return build ? Value(nn::ConstantOp::create(rewriter, like->getLoc(), splat.resizeSplat(type)))
                 : operand;
  if (auto broadcast = operand.getDefiningOp<nn::BroadcastOp>()) {
    Factors shape, dims;
    for (auto [size, dim] :
         llvm::zip(tensor(broadcast.getInput()).getShape(), broadcast.getDims())) {
      if (size == 1)
        continue;
      for (int64_t factor : movement.to[dim]) {
        shape.push_back(movement.sizes[factor]);
        dims.push_back(factor);
      }
    }
    if (!llvm::is_sorted(dims))
      return {};
    if (!build)
      return operand;
    Value input = broadcast.getInput();
    if (ArrayRef<int64_t>(shape) != tensor(input).getShape()) {
      auto reshape = nn::ReshapeOp::create(
          rewriter, like->getLoc(), RankedTensorType::get(shape, type.getElementType()), input);
      inherit(broadcast, reshape);
      input = reshape;
    }
    auto wide = nn::BroadcastOp::create(rewriter, like->getLoc(), type, input, dims);
    inherit(broadcast, wide);
    return wide;
  }
  Movement other = Movement::of(operand);
  if (other.sizes != movement.sizes || other.to != movement.to)
    return {};
  return build ? other.split(rewriter, like) : operand;
}

/// Rewrites f(transpose(x), ..) to transpose(f(x, ..)) for an elementwise f.
struct ElementwiseFirst : OpInterfaceRewritePattern<ElementwiseOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(ElementwiseOpInterface interface,
                                PatternRewriter &rewriter) const override {
    Operation *op = interface;
    if (op->getNumResults() != 1)
      return failure();
    std::optional<Movement> movement;
    for (Value operand : op->getOperands())
      if (Movement one = Movement::of(operand); !movement && one.movesBatch())
        movement = one;
    if (!movement || llvm::any_of(op->getOperands(), [&](Value operand) {
          return !unmoved(*movement, operand, rewriter, op, false);
        }))
      return failure();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(unmoved(*movement, operand, rewriter, op, true));
    Operation *copy = rewriter.clone(*op);
    copy->setOperands(operands);
    copy->getResult(0).setType(
        RankedTensorType::get(movement->sizes, tensor(op->getResult(0)).getElementType()));
    rewriter.replaceOp(op, movement->ofSplit(copy->getResult(0)).build(rewriter, op));
    return success();
  }
};

/// Rewrites a matmul of permuted rows to a permutation of the rows of a matmul.
struct MatmulFirst : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MatmulOp op, PatternRewriter &rewriter) const override {
    Movement movement = Movement::of(op.getLhs());
    if (op.getTransposeLhs() || tensor(op).getRank() != 2 || !movement.movesBatch())
      return failure();
    Factors rows = movement.to[0];
    llvm::sort(rows);
    if (rows == movement.to[0] || rows[0] != 0)
      return failure();
    Movement straight = movement;
    straight.to[0] = rows;
    straight.simplify();
    Value lhs = straight.build(rewriter, op);
    Operation *copy = rewriter.clone(*op);
    copy->setOperand(0, lhs);
    // The result: rows split into factors, then the columns.
    Movement back{copy->getResult(0), {}, {{}, {}}, {{}, {}}, 0, movement.turnsBatch};
    for (int64_t factor : rows) {
      back.from[0].push_back(back.sizes.size());
      back.sizes.push_back(movement.sizes[factor]);
    }
    for (int64_t factor : movement.to[0])
      back.to[0].push_back(llvm::find(rows, factor) - rows.begin());
    if (int64_t columns = tensor(op).getDimSize(1); columns > 1) {
      back.from[1] = back.to[1] = {int64_t(back.sizes.size())};
      back.sizes.push_back(columns);
    }
    rewriter.replaceOp(op, back.build(rewriter, op));
    return success();
  }
};

/// Returns the places of `factors` in increasing order.
Factors sortedPlaces(ArrayRef<int64_t> factors) {
  Factors places(factors.size());
  std::iota(places.begin(), places.end(), 0);
  llvm::sort(places, [&](int64_t a, int64_t b) { return factors[a] < factors[b]; });
  return places;
}

/// Permutes back the rows of both operands of a matmul that sums over the rows of both, if they are
/// permuted alike.
struct SumOfRowsFirst : OpRewritePattern<nn::MatmulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::MatmulOp op, PatternRewriter &rewriter) const override {
    if (!op.getTransposeLhs() || op.getTransposeRhs() || tensor(op).getRank() != 2)
      return failure();
    Movement lhs = Movement::of(op.getLhs()), rhs = Movement::of(op.getRhs());
    if (!lhs.movesBatch() || !rhs.movesBatch() || lhs.to[0].size() != rhs.to[0].size())
      return failure();
    Factors order = sortedPlaces(lhs.to[0]);
    bool isAlike = llvm::all_of(llvm::zip(lhs.to[0], rhs.to[0]), [&](auto pair) {
      return lhs.sizes[std::get<0>(pair)] == rhs.sizes[std::get<1>(pair)];
    });
    if (llvm::is_sorted(lhs.to[0]) || !isAlike || order != sortedPlaces(rhs.to[0]))
      return failure();
    SmallVector<Value> operands;
    for (Movement *movement : {&lhs, &rhs}) {
      llvm::sort(movement->to[0]);
      movement->simplify();
      operands.push_back(movement->build(rewriter, op));
    }
    rewriter.modifyOpInPlace(op, [&] { op->setOperands(operands); });
    return success();
  }
};

/// Rewrites reduce(transpose(x)) to a transpose of what is left of reduce(x), if the batch is
/// reduced.
struct ReduceFirst : OpRewritePattern<nn::ReduceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::ReduceOp op, PatternRewriter &rewriter) const override {
    Movement movement = Movement::of(op.getInput());
    Factors dims;
    for (int64_t dim : op.getDims())
      llvm::append_range(dims, movement.to[dim]);
    llvm::sort(dims);
    if (!movement.movesBatch() || dims.empty() || dims[0] != 0)
      return failure();
    Movement left = movement;
    left.from.clear(), left.to.clear(), left.sizes.clear();
    Factors number(movement.sizes.size(), -1);
    for (auto [factor, size] : llvm::enumerate(movement.sizes))
      if (!llvm::is_contained(dims, int64_t(factor))) {
        number[factor] = left.sizes.size();
        left.from.push_back({number[factor]});
        left.sizes.push_back(size);
      }
    for (auto [dim, factors] : llvm::enumerate(movement.to))
      if (!llvm::is_contained(op.getDims(), int64_t(dim))) {
        Factors &to = left.to.emplace_back();
        for (int64_t factor : factors)
          to.push_back(number[factor]);
      }
    auto reduced = nn::ReduceOp::create(
        rewriter, op.getLoc(), RankedTensorType::get(left.sizes, tensor(op).getElementType()),
        op.getKind(), movement.split(rewriter, op), dims);
    inherit(op, reduced);
    left.source = reduced;
    left.turnsBatch = false;
    rewriter.replaceOp(op, left.build(rewriter, op));
    return success();
  }
};

/// Rewrites broadcast(transpose(x)) to transpose(broadcast(x)) if it repeats dimensions of size 1
/// only, so that the batch goes on to be the first factor.
struct BroadcastFirst : OpRewritePattern<nn::BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(nn::BroadcastOp op, PatternRewriter &rewriter) const override {
    Movement movement = Movement::of(op.getInput());
    if (!movement.movesBatch())
      return failure();
    Movement wide{{}, movement.sizes, {}, {}, 0, true};
    wide.to.resize(tensor(op).getRank());
    for (auto [dim, factors] : llvm::zip(op.getDims(), movement.to))
      wide.to[dim] = factors;
    for (auto [dim, size] : llvm::enumerate(tensor(op).getShape()))
      if (wide.to[dim].empty() && size > 1) {
        wide.to[dim].push_back(wide.sizes.size());
        wide.sizes.push_back(size);
      }
    for (size_t factor = 0; factor < wide.sizes.size(); ++factor)
      wide.from.push_back({int64_t(factor)});
    auto broadcast = nn::BroadcastOp::create(
        rewriter, op.getLoc(), RankedTensorType::get(wide.sizes, tensor(op).getElementType()),
        movement.split(rewriter, op), llvm::to_vector(llvm::seq<int64_t>(movement.sizes.size())));
    inherit(op, broadcast);
    wide.source = broadcast;
    rewriter.replaceOp(op, wide.build(rewriter, op));
    return success();
  }
};

/// Returns the number of leading dimensions along which `op` computes independently: by its
/// sharding rule they are parallel, and leading in the first operand and in every result. 0 for an
/// op whose attributes may name dimensions.
int64_t independentDims(Operation *op) {
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  if (!sharded || isa<IndexedOpInterface, ElementwiseOpInterface, nn::MatmulOp>(op) ||
      op->getNumOperands() == 0)
    return 0;
  ShardingRule rule = sharded.getShardingRule();
  const TensorFactors &first = rule.operands[0];
  size_t count = 0;
  for (; count < first.size(); ++count) {
    if (first[count].size() != 1 || rule.factors[first[count][0]].kind != FactorKind::Parallel)
      break;
    auto isThere = [&](const TensorFactors &one) {
      return count < one.size() && one[count] == first[count];
    };
    auto isElsewhere = [&](const TensorFactors &one) {
      return llvm::any_of(
          one, [&](const auto &dim) { return llvm::is_contained(dim, first[count][0]); });
    };
    if (!llvm::all_of(rule.results, isThere) ||
        llvm::any_of(llvm::drop_begin(rule.operands), isElsewhere))
      break;
  }
  return count;
}

/// Rewrites f(transpose(x)) to transpose(f(x)) for norms and softmax if only leading dimensions are
/// permuted.
struct RowsFirst : OpInterfaceRewritePattern<ShardingRuleOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;
  LogicalResult matchAndRewrite(ShardingRuleOpInterface interface,
                                PatternRewriter &rewriter) const override {
    Operation *op = interface;
    int64_t lead = independentDims(op);
    if (lead < 2)
      return failure();
    auto transpose = op->getOperand(0).getDefiningOp<nn::TransposeOp>();
    if (!transpose || !transpose->hasAttr(kTurnsBatch))
      return failure();
    ArrayRef<int64_t> perm = transpose.getPerm();
    for (int64_t dim = 0; dim < int64_t(perm.size()); ++dim)
      if ((dim < lead) != (perm[dim] < lead) || (dim >= lead && perm[dim] != dim))
        return failure();
    Operation *copy = rewriter.clone(*op);
    copy->setOperand(0, transpose.getInput());
    SmallVector<Value> results;
    for (Value result : copy->getResults()) {
      RankedTensorType turned = tensor(result);
      Factors shape(turned.getShape()), order(perm.take_front(lead));
      for (int64_t dim = 0; dim < lead; ++dim)
        shape[perm[dim]] = turned.getDimSize(dim);
      for (int64_t dim = lead; dim < turned.getRank(); ++dim)
        order.push_back(dim);
      result.setType(RankedTensorType::get(shape, turned.getElementType()));
      auto back = nn::TransposeOp::create(rewriter, op->getLoc(), turned, result, order);
      inherit(transpose, back);
      back->setAttr(kTurnsBatch, rewriter.getUnitAttr());
      results.push_back(back);
    }
    rewriter.replaceOp(op, results);
    return success();
  }
};

/// The place of the batch in a value: a dimension, and the size of its part that is more major (T
/// for rows [T B]).
struct BatchPlace {
  int64_t dim, outer;
};

/// Maps the place of the batch in `operand` to its place in `result`.
std::optional<BatchPlace> follow(const ShardingRule &rule, const TensorFactors &operand,
                                 BatchPlace place, const TensorFactors &result) {
  int64_t before = 1;
  for (int64_t factor : operand[place.dim]) {
    int64_t size = rule.factors[factor].size;
    if (before * size <= place.outer) {
      before *= size;
      continue;
    }
    for (auto [dim, factors] : llvm::enumerate(result)) {
      int64_t outer = place.outer / before;
      for (int64_t one : factors) {
        if (one == factor)
          return BatchPlace{int64_t(dim), outer};
        outer *= rule.factors[one].size;
      }
    }
    break;
  }
  return std::nullopt;
}

/// Follows the batch from the arguments through the ops, by their sharding rules, and marks the
/// transposes that move it away from the front.
void markTurns(func::FuncOp function) {
  llvm::DenseMap<Value, BatchPlace> batch;
  for (BlockArgument argument : function.getArguments())
    if (auto dim =
            function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), nn::kBatchDimAttr))
      batch[argument] = {dim.getInt(), 1};
  function.walk([&](ShardingRuleOpInterface op) {
    std::optional<ShardingRule> rule;
    for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
      auto found = batch.find(operand);
      if (found == batch.end())
        continue;
      BatchPlace place = found->second;
      if (!rule)
        rule = op.getShardingRule();
      for (auto [result, tensor] : llvm::zip(op->getResults(), rule->results))
        if (auto next = follow(*rule, rule->operands[i], place, tensor))
          batch.try_emplace(result, *next);
      auto transpose = dyn_cast<nn::TransposeOp>(op.getOperation());
      if (transpose && place.dim == 0 && place.outer == 1 && transpose.getPerm()[0] != 0)
        transpose->setAttr(kTurnsBatch, UnitAttr::get(op->getContext()));
    }
  });
}

struct SinkMovementPass : shale::impl::SinkMovementPassBase<SinkMovementPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns
        .add<ShortenChain<nn::ReshapeOp>, ShortenChain<nn::TransposeOp>, SliceFirst,
             ElementwiseFirst, MatmulFirst, RowsFirst, SumOfRowsFirst, ReduceFirst, BroadcastFirst>(
            &getContext());
    getOperation()->walk([](func::FuncOp function) { markTurns(function); });
    applyPatterns(getOperation(), std::move(patterns));
    getOperation()->walk([](nn::TransposeOp op) { op->removeAttr(kTurnsBatch); });
  }
};

} // namespace
