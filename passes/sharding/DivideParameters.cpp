//===- DivideParameters.cpp - Divides matmuls whose results are cut -------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/DividedGradients.h"
#include "passes/sharding/Parts.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/SplitUpdates.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_DIVIDEPARAMETERSPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// The way from a matmul to the slices that cut its columns: a bias is added, the result is
/// reshaped and transposed.
struct Chain {
  Operation *matmul = nullptr; ///< of rows with a parameter, or with those of several experts
  BlockArgument weight;
  int64_t weightDim = 0;       ///< of the columns
  BlockArgument bias;          ///< or null
  Operation *spread = nullptr; ///< makes the values per column of the bias
  int64_t biasDim = 0;
  /// Between matmul and slices, in order. Each has one user, but for the last.
  SmallVector<Operation *> ops;
  /// One entry for the result of the matmul, then one per op: the dimension that the slices cut,
  /// and the number of columns of the matmul per index of that dimension.
  SmallVector<std::pair<int64_t, int64_t>> cuts;
  SmallVector<nn::SliceOp> slices;          ///< in the order of their columns
  std::optional<MatmulGradients> gradients; ///< those of the model's file
};

ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

/// Columns [begin, end) of the matmul that a slice takes.
std::pair<int64_t, int64_t> columnsOf(nn::SliceOp slice, std::pair<int64_t, int64_t> cut) {
  auto [dim, unit] = cut;
  return {slice.getStarts()[dim] * unit, slice.getLimits()[dim] * unit};
}

} // namespace

static BlockArgument parameter(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  nn::StateOp state = argument ? nn::getState(argument) : nn::StateOp();
  return state && state.getRole() == nn::Role::Param && !state.getNamesAttr() ? argument
                                                                              : BlockArgument();
}

/// Returns the parameter among an op's operands that has dimension `dim` of its result, and the
/// dimension there; null if there is none, or if another operand has it.
static std::pair<BlockArgument, int64_t> parameterAlong(Operation *op, int64_t dim) {
  auto sharded = dyn_cast_or_null<ShardingRuleOpInterface>(op);
  if (!sharded || op->getNumResults() != 1)
    return {};
  ShardingRule rule = sharded.getShardingRule();
  if (dim >= int64_t(rule.results[0].size()) || rule.results[0][dim].size() != 1)
    return {};
  int64_t factor = rule.results[0][dim][0];
  if (rule.factors[factor].kind != FactorKind::Parallel || rule.factors[factor].contiguous)
    return {};
  std::pair<BlockArgument, int64_t> found;
  for (auto [operand, dims] : llvm::zip(op->getOperands(), rule.operands))
    for (auto [place, factors] : llvm::enumerate(dims))
      if (llvm::is_contained(factors, factor)) {
        if (found.first || factors.size() != 1 || !parameter(operand))
          return {};
        found = {parameter(operand), place};
      }
  return found;
}

/// Follows one op of the chain. Returns false if the columns cannot be followed through it.
static bool follow(Operation *op, Chain &chain) {
  auto [dim, unit] = chain.cuts.back();
  Value from = chain.matmul->getResult(0);
  if (!chain.ops.empty())
    from = chain.ops.back()->getResult(0);
  ArrayRef<int64_t> shape = shapeOf(from);
  if (isa<ElementwiseOpInterface>(op) && op->getNumOperands() == 2) { // with a value per column
    Value other = op->getOperand(op->getOperand(0) == from ? 1 : 0);
    Operation *spread = other.getDefiningOp();
    if (!isa_and_nonnull<nn::BroadcastOp, IndexUserOpInterface>(spread))
      return false;
    auto [bias, place] = parameterAlong(spread, dim);
    if (!bias || !bias.hasOneUse() || chain.bias || !other.hasOneUse() ||
        shapeOf(bias)[place] != shape[dim] || unit != 1)
      return false;
    chain.bias = bias;
    chain.spread = spread;
    chain.biasDim = place;
    chain.cuts.push_back({dim, unit});
    return true;
  }
  if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    auto at = llvm::find(transpose.getPerm(), dim);
    chain.cuts.push_back({at - transpose.getPerm().begin(), unit});
    return true;
  }
  auto reshape = dyn_cast<nn::ReshapeOp>(op);
  if (!reshape)
    return false;
  // The dimension keeps its place in the order of elements: as many elements come before each of
  // its indices, or it becomes several, of which the first is cut.
  ArrayRef<int64_t> to = shapeOf(reshape.getResult());
  int64_t before = 1, inner = 1, passed = 1;
  for (int64_t n : shape.take_front(dim))
    before *= n;
  for (int64_t n : shape.drop_front(dim + 1))
    inner *= n;
  for (auto [d, n] : llvm::enumerate(to)) {
    if (passed == before && n > 1) {
      int64_t rest = 1; // elements per index of the new dimension
      for (int64_t m : to.drop_front(d + 1))
        rest *= m;
      if (rest % inner != 0 || n * rest != shape[dim] * inner)
        return false;
      chain.cuts.push_back({static_cast<int64_t>(d), unit * (rest / inner)});
      return true;
    }
    passed *= n;
  }
  return false;
}

/// Whether the op is a slice that cuts only the chain's dimension.
static bool cutsOnly(nn::SliceOp slice, int64_t dim) {
  for (auto [d, size] : llvm::enumerate(shapeOf(slice.getInput()))) {
    bool whole = slice.getStarts()[d] == 0 && slice.getLimits()[d] == size;
    if (slice.getStrides()[d] != 1 || (!whole && static_cast<int64_t>(d) != dim))
      return false;
  }
  return true;
}

/// Collects the slices of the chain's last value. Returns false if they leave out or repeat a
/// column.
static bool readSlices(Value value, Chain &chain) {
  for (Operation *user : value.getUsers()) {
    auto slice = dyn_cast<nn::SliceOp>(user);
    if (!slice || !cutsOnly(slice, chain.cuts.back().first))
      return false;
    chain.slices.push_back(slice);
  }
  auto columns = [&](nn::SliceOp slice) { return columnsOf(slice, chain.cuts.back()); };
  llvm::sort(chain.slices, [&](nn::SliceOp a, nn::SliceOp b) { return columns(a) < columns(b); });
  int64_t end = 0;
  for (nn::SliceOp slice : chain.slices) {
    if (columns(slice).first != end)
      return false;
    end = columns(slice).second;
  }
  return chain.slices.size() > 1 && end == shapeOf(chain.matmul->getResult(0)).back();
}

/// Reads the gradients that the file has of the parameters. Returns false if they cannot be
/// divided, or if the weight has another use.
static bool readGradients(Chain &chain) {
  if (!hasGivenGradient(chain.weight) && !(chain.bias && hasGivenGradient(chain.bias)))
    return chain.weight.hasOneUse();
  SmallVector<int64_t> sizes;
  for (nn::SliceOp slice : chain.slices) {
    auto [begin, end] = columnsOf(slice, chain.cuts.back());
    sizes.push_back(end - begin);
  }
  if (auto matmul = dyn_cast<nn::MatmulOp>(chain.matmul))
    chain.gradients = findMatmulGradients(matmul, chain.weight, chain.bias, sizes);
  return chain.gradients.has_value();
}

/// Finds what follows a matmul; nothing if its columns are not just cut.
static std::optional<Chain> chainOf(Operation *matmul) {
  Chain chain;
  chain.matmul = matmul;
  if (matmul->getNumResults() != 1 || shapeOf(matmul->getResult(0)).size() != 2)
    return std::nullopt;
  std::tie(chain.weight, chain.weightDim) = parameterAlong(matmul, 1);
  if (!chain.weight)
    return std::nullopt;
  chain.cuts.push_back({1, 1});
  Value value = matmul->getResult(0);
  while (value.hasOneUse() && !isa<nn::SliceOp>(*value.user_begin())) {
    Operation *op = *value.user_begin();
    if (!follow(op, chain))
      return std::nullopt;
    chain.ops.push_back(op);
    value = op->getResult(0);
  }
  if (!readSlices(value, chain) || !readGradients(chain))
    return std::nullopt;
  return chain;
}

namespace {
/// Replaces the parameters and the matmul of a chain by those of its slices.
class Divider {
public:
  Divider(func::FuncOp function, int64_t ranks)
      : parts(function), ranks(ranks), builder(function.getContext(), &copies) {}
  void divide(Chain &chain);
  bool worksFor(const Chain &chain) const;
  PartBuilder parts;
  int64_t count = 0;

private:
  Value rebuilt(Chain &chain, Value value, int64_t columns, Value bias);

  int64_t ranks;
  CopyAttributes copies;
  OpBuilder builder;
};
} // namespace

/// Whether the ranks of tensor axes divide the columns of each part, and the optimizer can update
/// each.
bool Divider::worksFor(const Chain &chain) const {
  nn::StateOp weight = nn::getState(chain.weight),
              bias = chain.bias ? nn::getState(chain.bias) : nn::StateOp();
  for (nn::SliceOp slice : chain.slices) {
    auto [begin, end] = columnsOf(slice, chain.cuts.back());
    if ((end - begin) % ranks != 0)
      return false;
    std::optional<std::string> why = whyNotDivided(weight, chain.weightDim, begin, end);
    if (!why && bias)
      why = whyNotDivided(bias, chain.biasDim, begin, end);
    if (why) {
      emitDecision(chain.matmul->getLoc(), "divide-parameters",
                   "'" + weight.getSymName().str() + "' is not divided: " + *why);
      weight->setAttr(dist::kPlanAttr, StringAttr::get(weight.getContext(), kStaysWhole + *why));
      return false;
    }
  }
  return true;
}

/// Repeats the ops of the chain for some of the columns.
Value Divider::rebuilt(Chain &chain, Value value, int64_t columns, Value bias) {
  for (auto [op, cut] : llvm::zip_equal(chain.ops, ArrayRef(chain.cuts).drop_front())) {
    copies.current = op;
    auto [dim, unit] = cut;
    SmallVector<int64_t> shape(shapeOf(op->getResult(0)));
    shape[dim] = columns / unit;
    auto type = cast<RankedTensorType>(op->getResult(0).getType()).clone(shape);
    if (isa<ElementwiseOpInterface>(op)) {
      IRMapping part;
      part.map(chain.bias, bias);
      Operation *along = builder.clone(*chain.spread, part);
      along->getResult(0).setType(
          cast<RankedTensorType>(along->getResult(0).getType()).clone(shape));
      bool second = op->getOperand(1).getDefiningOp() == chain.spread;
      Operation *made = builder.clone(*op);
      made->setOperands(second ? ValueRange{value, along->getResult(0)}
                               : ValueRange{along->getResult(0), value});
      made->getResult(0).setType(type);
      value = made->getResult(0);
    } else if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
      value = nn::TransposeOp::create(builder, op->getLoc(), type, value, transpose.getPermAttr());
    } else {
      value = nn::ReshapeOp::create(builder, op->getLoc(), type, value);
    }
  }
  return value;
}

void Divider::divide(Chain &chain) {
  SmallVector<BlockArgument> weights, biases;
  for (auto [number, slice] : llvm::enumerate(chain.slices)) {
    auto [begin, end] = columnsOf(slice, chain.cuts.back());
    BlockArgument weight =
        parts.add(chain.weight, Twine(number), chain.weightDim, begin, end - begin);
    BlockArgument bias =
        chain.bias ? parts.add(chain.bias, Twine(number), chain.biasDim, begin, end - begin)
                   : BlockArgument();
    weights.push_back(weight);
    biases.push_back(bias);
    builder.setInsertionPoint(slice);
    copies.current = chain.matmul;
    auto type = cast<RankedTensorType>(chain.matmul->getResult(0).getType());
    IRMapping part;
    part.map(chain.weight, weight);
    Value made = builder.clone(*chain.matmul, part)->getResult(0);
    made.setType(type.clone({type.getDimSize(0), end - begin}));
    slice.getResult().replaceAllUsesWith(rebuilt(chain, made, end - begin, bias));
  }
  if (chain.gradients)
    divideGradients(*chain.gradients, weights, biases);
  for (nn::SliceOp slice : chain.slices)
    slice.erase();
  for (Operation *op : llvm::reverse(chain.ops))
    op->erase();
  if (chain.spread)
    chain.spread->erase();
  chain.matmul->erase();
  for (BlockArgument argument : {chain.weight, chain.bias})
    if (argument)
      parts.retire(argument);
  ++count;
}

namespace {
struct DivideParametersPass : impl::DivideParametersPassBase<DivideParametersPass> {
  using DivideParametersPassBase::DivideParametersPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    int64_t ranks = tensorRanks(dist::getMesh(module));
    func::FuncOp function = onlyFunction(module); // before autodiff there is one
    if (ranks == 1 || !function)
      return;
    Divider divider(function, ranks);
    SmallVector<Operation *> matmuls;
    for (Operation &op : function.getOps())
      if (auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
          sharded && isMatmul(sharded.getShardingRule()))
        matmuls.push_back(&op);
    llvm::DenseSet<Operation *> erased; // with a chain before: the matmuls of its gradients
    for (Operation *matmul : matmuls) {
      if (erased.contains(matmul))
        continue;
      std::optional<Chain> chain = chainOf(matmul);
      if (!chain || !divider.worksFor(*chain))
        continue;
      if (chain->gradients)
        erased.insert_range(
            ArrayRef<Operation *>{chain->gradients->ofInput, chain->gradients->ofWeight});
      divider.divide(*chain);
    }
    divider.parts.finish();
    if (divider.count > 0)
      emitDecision(module.getLoc(), "divide-parameters",
                   std::to_string(divider.count) + " matmuls whose results are cut are divided");
  }
};
} // namespace

} // namespace shale
