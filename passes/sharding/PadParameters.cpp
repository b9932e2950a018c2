//===- PadParameters.cpp - Pads vocabularies that do not divide -----------===//
#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Interfaces.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Loss.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "passes/sharding/Parts.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/SplitUpdates.h"
#include "passes/sharding/TensorLayout.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_PADPARAMETERSPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// The values that have a dimension of a parameter, its rows or its columns, as a dimension.
class DimValues {
public:
  /// Follows dimension `dim` of `table`. Where an op could not compute with more indices of it,
  /// why() says so.
  DimValues(BlockArgument table, int64_t dim) {
    add(table, dim);
    while (!work.empty() && reason.empty()) {
      auto [value, dim] = work.pop_back_val();
      followOrigin(value, dim);
      for (OpOperand &use : value.getUses())
        if (reason.empty())
          followUse(use, dim);
    }
  }

  const std::string &why() const { return reason; }
  /// Whether the indices are classes: a lookup takes a row by its number, or a loss compares them.
  bool areClasses() const { return looksUp || !losses.empty(); }
  /// Values by the dimension that is the table's.
  const llvm::MapVector<Value, int64_t> &getValues() const { return values; }
  ArrayRef<Operation *> getLosses() const { return losses; }

private:
  void add(Value value, int64_t dim);
  void followOrigin(Value value, int64_t dim);
  void followUse(OpOperand &use, int64_t dim);
  void addOperands(Operation *op, const ShardingRule &rule, int64_t factor);
  void stop(Operation *op, StringRef text) {
    reason = (op->getName().getStringRef() + " " + text).str();
  }

  llvm::MapVector<Value, int64_t> values;
  SmallVector<std::pair<Value, int64_t>> work;
  SmallVector<Operation *> losses;
  bool looksUp = false;
  std::string reason;
};

} // namespace

/// Returns the factor that is all of a dimension; -1 if ranks could not split it.
static int64_t factorOf(const ShardingRule &rule, const TensorFactors &tensor, int64_t dim) {
  ArrayRef<int64_t> factors = tensor[dim];
  return factors.size() == 1 && rule.factors[factors[0]].kind == FactorKind::Parallel ? factors[0]
                                                                                      : -1;
}

/// Returns the dimension that a factor is; -1 if it is none, or a part of one.
static int64_t dimOf(const TensorFactors &tensor, int64_t factor) {
  auto at = llvm::find_if(
      tensor, [&](auto &factors) { return factors.size() == 1 && factors[0] == factor; });
  return at == tensor.end() ? -1 : at - tensor.begin();
}

/// Whether an op computes the same for each index of a dimension, however many there are, with
/// other types and the same attributes (but for the limits of a slice).
static bool takesAnySize(Operation *op) {
  return op->getNumResults() == 1 && isa<ShardingRuleOpInterface>(op) &&
         !isa<StochasticOpInterface>(op) &&
         (isa<nn::SliceOp, nn::PadOp>(op) || !isa<PartitionableOpInterface>(op));
}

void DimValues::add(Value value, int64_t dim) {
  auto [it, inserted] = values.try_emplace(value, dim);
  if (inserted)
    work.emplace_back(value, dim);
  else if (it->second != dim)
    reason = "they become two dimensions of one value";
}

/// Adds the operands of `op` that have the factor, too. One of which it is a part of a dimension
/// has another number of elements there.
void DimValues::addOperands(Operation *op, const ShardingRule &rule, int64_t factor) {
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands)) {
    if (int64_t dim = dimOf(factors, factor); dim >= 0)
      add(operand, dim);
    else if (hasFactor(factors, factor))
      stop(op, "makes a value of this size");
  }
}

/// Adds what the value is computed from.
void DimValues::followOrigin(Value value, int64_t dim) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    nn::StateOp state = nn::getState(argument);
    if (!state)
      reason = "an input has as many elements";
    else if (state.getRole() != nn::Role::Param || state->hasAttr(nn::kPartAttr))
      reason = "'" + state.getSymName().str() + "' has as many elements";
    return;
  }
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!elements || !elements.isSplat())
      stop(op, "has a value for each of them");
    return;
  }
  if (!takesAnySize(op))
    return stop(op, "makes a value of this size");
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  int64_t factor = factorOf(rule, rule.results[0], dim);
  if (factor < 0)
    return stop(op, "makes a value of this size");
  addOperands(op, rule, factor);
}

void DimValues::followUse(OpOperand &use, int64_t dim) {
  Operation *op = use.getOwner();
  if (op->hasTrait<nn::AbsentClasses>() && use.getOperandNumber() == 0 && dim == 1) {
    losses.push_back(op);
    return;
  }
  auto lookup = dyn_cast<nn::EmbeddingOp>(op);
  if (lookup && &lookup.getTableMutable() == &use && dim == 0) {
    looksUp = true;
    return;
  }
  if (!takesAnySize(op))
    return stop(op, "reads all of them");
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  int64_t factor = factorOf(rule, rule.operands[use.getOperandNumber()], dim);
  int64_t to = factor < 0 ? -1 : dimOf(rule.results[0], factor);
  if (to < 0)
    return stop(op, "reads all of them");
  add(op->getResult(0), to);
  addOperands(op, rule, factor);
}

namespace {
/// Pads parameters of a function.
class Padder {
public:
  Padder(func::FuncOp function, const Target &target, int64_t ranks)
      : function(function), target(target), ranks(ranks), parts(function) {}
  void run();

private:
  int64_t paddedSize(BlockArgument table, int64_t size) const;
  void pad(BlockArgument table, int64_t dim);
  void pad(const DimValues &indices, int64_t size, int64_t padded);
  void widen(Value value, int64_t dim, int64_t padded);

  func::FuncOp function;
  const Target &target;
  int64_t ranks;
  PartBuilder parts;
};
} // namespace

/// Returns a size, at least `size`, that the ranks divide; 0 if the last of them would have only
/// padding.
int64_t Padder::paddedSize(BlockArgument table, int64_t size) const {
  auto precision =
      function->getParentOfType<ModuleOp>()->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
  Type element =
      precision ? precision.getParam() : cast<RankedTensorType>(table.getType()).getElementType();
  int64_t least = llvm::divideCeil(size, ranks);
  for (int64_t each : {target.paddedSize(least, element), least})
    if (each * (ranks - 1) < size)
      return each * ranks;
  return 0;
}

/// Gives a value `padded` indices along a dimension.
void Padder::widen(Value value, int64_t dim, int64_t padded) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t size = type.getDimSize(dim);
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = padded;
  auto wide = type.clone(shape);
  Operation *op = value.getDefiningOp();
  if (auto constant = dyn_cast<nn::ConstantOp>(op))
    constant.setValueAttr(cast<DenseElementsAttr>(constant.getValue()).resizeSplat(wide));
  if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    SmallVector<int64_t> limits(slice.getLimits());
    for (auto [d, limit] : llvm::enumerate(limits))
      if (static_cast<int64_t>(d) == dim && limit == size)
        limit = padded;
    slice.setLimits(limits);
  }
  value.setType(wide);
}

void Padder::pad(const DimValues &indices, int64_t size, int64_t padded) {
  for (auto [value, dim] : indices.getValues()) {
    auto whole = dyn_cast<BlockArgument>(value);
    if (!whole) {
      widen(value, dim, padded);
      continue;
    }
    whole.replaceAllUsesWith(parts.add(whole, "padded", dim, 0, padded, padded - size));
    parts.retire(whole);
  }
  for (Operation *loss : indices.getLosses())
    if (!loss->hasAttr(nn::kClassesName))
      loss->setAttr(nn::kClassesName,
                    IntegerAttr::get(IntegerType::get(loss->getContext(), 64), size));
}

/// Whether --tensor says that the parameter is not split.
static bool staysWhole(nn::StateOp state) {
  auto typed = state->getAttrOfType<dist::TensorSplitAttr>(dist::kTensorAttr);
  return typed && typed.getValue() == dist::TensorSplit::Whole;
}

/// Pads the indices of a dimension that the ranks do not divide, if they are classes.
void Padder::pad(BlockArgument table, int64_t dim) {
  nn::StateOp state = nn::getState(table);
  int64_t size = state.getTensorType().getDimSize(dim), padded = paddedSize(table, size);
  if (size % ranks == 0 || padded == 0 ||
      state.getRole() == nn::Role::Divided) // together with another one
    return;
  DimValues indices(table, dim);
  if (!indices.areClasses())
    return;
  std::string what = "the " + std::to_string(size) + (dim == 0 ? " rows" : " columns") + " of '" +
                     state.getSymName().str() + "' do not divide over " + std::to_string(ranks) +
                     " tensor ranks";
  std::string why = indices.why();
  for (auto [value, at] : indices.getValues())
    if (auto argument = dyn_cast<BlockArgument>(value); argument && why.empty())
      why = whyNotDivided(nn::getState(argument), at, 0, size).value_or("");
  if (!why.empty()) {
    emitDecision(table.getLoc(), "pad-parameters", what + ", and cannot be padded: " + why);
    return;
  }
  emitDecision(table.getLoc(), "pad-parameters",
               what + ": they are padded to " + std::to_string(padded));
  pad(indices, size, padded);
}

void Padder::run() {
  SmallVector<BlockArgument> tables;
  for (BlockArgument argument : function.getArguments()) {
    nn::StateOp state = nn::getState(argument);
    if (state && state.getRole() == nn::Role::Param && !state->hasAttr(nn::kPartAttr) &&
        state.getTensorType().getRank() == 2 && !staysWhole(state))
      tables.push_back(argument);
  }
  for (BlockArgument table : tables)
    for (int64_t dim : {0, 1})
      pad(table, dim);
  parts.finish();
}

/// Whether one tensor axis has more than one rank.
static bool hasOneAxis(dist::MeshOp mesh) {
  return llvm::count_if(mesh.getAxes().getAsRange<StringAttr>(), [&](StringAttr axis) {
           return mesh.splitsValues(axis.getValue()) && mesh.getSize(axis.getValue()) > 1;
         }) == 1;
}

namespace {
struct PadParametersPass : impl::PadParametersPassBase<PadParametersPass> {
  using PadParametersPassBase::PadParametersPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::getMesh(module);
    int64_t ranks = tensorRanks(mesh);
    func::FuncOp function = onlyFunction(module); // before autodiff there is one
    // Storage splits a padded dimension over one axis.
    if (ranks == 1 || !function || !hasOneAxis(mesh))
      return;
    const Target *target = targetOf(module);
    if (!target)
      return signalPassFailure();
    Padder(function, *target, ranks).run();
  }
};
} // namespace

} // namespace shale
