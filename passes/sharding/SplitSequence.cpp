//===- SplitSequence.cpp - Splits rows between the matmuls of a layer -----===//
#include "dialects/nn/Ops/Data.h"
#include "lib/Support/Remarks.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/Rebuild.h"
#include "passes/sharding/TensorLayout.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_SPLITSEQUENCEPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// A dimension of which an axis splits each of so many blocks.
struct RowSplit {
  int64_t dim;
  int64_t blocks = 1;
};

/// Which dimension of activations the tensor axes split, all together: examples if there are enough
/// of them, else the positions of each.
struct Rows {
  int64_t batch = 0;     ///< examples of the whole micro-batch
  int64_t dataRanks = 1; ///< ranks that split them
  int64_t tensorRanks = 1;

  /// Returns how axes of `ranks` ranks together split a value of `shape`; nothing if they cannot.
  std::optional<RowSplit> splitOf(ArrayRef<int64_t> shape, int64_t ranks) const {
    if (shape.size() < 2 || batch == 0 || shape[0] == 0 || shape[0] % batch != 0)
      return std::nullopt;
    int64_t examples = batch / dataRanks, positions = shape[0] / batch;
    if (examples % ranks == 0)
      return RowSplit{0};
    bool flat = positions > 1; // examples and positions are one dimension
    if (flat && positions % ranks == 0)
      return RowSplit{0, examples};
    if (!flat && shape.size() > 2 && shape[1] % ranks == 0)
      return RowSplit{1};
    return std::nullopt;
  }
};

/// Inserts the constraints of one function for all tensor axes.
class SequenceSplitter {
public:
  SequenceSplitter(func::FuncOp function, dist::MeshOp mesh, const AxisList &axes, const Rows &rows)
      : function(function), mesh(mesh), axes(axes), rows(rows), inBlocks(hasBlocks(function, mesh)),
        builder(function.getContext()) {}
  LogicalResult run();
  int64_t sums = 0; ///< that are scattered over rows

private:
  LogicalResult read(Operation *op);
  void scatter(OpResult result);
  void gather();
  Value viewAgain(Value value, Value from, Value same);
  Value constrain(Value value, const TensorLayout &layout, Operation *like, bool atUse);

  func::FuncOp function;
  dist::MeshOp mesh;
  const AxisList &axes;
  const Rows &rows;
  bool inBlocks;
  OpBuilder builder;
  llvm::DenseMap<OpOperand *, TensorLayout> reads;
  SmallVector<OpOperand *> whole; ///< of whole values, by ops that an axis splits
};

} // namespace

/// Finds in which layouts the op reads its operands.
LogicalResult SequenceSplitter::read(Operation *op) {
  SmallVector<TensorLayout, 4> operands;
  for (Value operand : op->getOperands())
    operands.push_back(*getLayout(operand));
  ShardingRule rule = getRule(op);
  FailureOr<Assignment> assignment = getAssignment(op, rule, operands, mesh, inBlocks);
  if (failed(assignment))
    return failure();
  for (OpOperand &operand : op->getOpOperands()) {
    TensorLayout layout = operandLayout(rule, *assignment, operand.getOperandNumber());
    const TensorLayout &have = operands[operand.getOperandNumber()];
    if (llvm::any_of(axes, [&](StringRef axis) { return assignment->factorOf(axis) >= 0; }) &&
        llvm::all_of(axes,
                     [&](StringRef axis) { return have.dimOf(axis) < 0 && !have.partialOn(axis); }))
      whole.push_back(&operand);
    reads[&operand] = std::move(layout);
  }
  return success();
}

/// Builds a constraint after the value, or before its first user in the phase of `like`.
Value SequenceSplitter::constrain(Value value, const TensorLayout &layout, Operation *like,
                                  bool atUse) {
  if (atUse)
    builder.setInsertionPoint(like);
  else
    builder.setInsertionPointAfterValue(value);
  auto made = dist::ConstrainOp::create(builder, like->getLoc(), value.getType(), value,
                                        layout.toAttr(function.getContext()));
  nn::copyPhaseAndScope(like, made);
  return made;
}

/// Returns how many ranks of data axes split the value, along any dimension.
static int64_t dataRanksOf(const TensorLayout &layout, dist::MeshOp mesh) {
  int64_t ranks = 1;
  for (const DimAxes &dim : layout.dims)
    for (const DimAxis &axis : dim)
      if (!mesh.splitsValues(axis.name))
        ranks *= mesh.getSize(axis.name);
  return ranks;
}

/// Lets readers of a sum over tensor axes that need it whole read a slice of its rows. A sum that
/// is also one over data axes is a sum over examples, so it has no rows of them. One that each data
/// rank has whole, as of rows that other examples index, has rows of all examples.
void SequenceSplitter::scatter(OpResult result) {
  TensorLayout layout = *getLayout(result);
  auto type = cast<RankedTensorType>(result.getType());
  AxisList over;
  int64_t ranks = 1;
  for (StringRef axis : axes) {
    if (layout.dimOf(axis) >= 0)
      return;
    if (layout.partialOn(axis) == dist::Reduction::Sum) {
      over.push_back(axis);
      ranks *= mesh.getSize(axis);
    }
  }
  std::optional<RowSplit> split = rows.splitOf(type.getShape(), ranks);
  if (over.empty() || layout.partial.size() != over.size() || !split ||
      dataRanksOf(layout, mesh) != rows.dataRanks || !isa<FloatType>(type.getElementType()))
    return;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : result.getUses()) {
    auto read = reads.find(&use);
    if (read != reads.end() && read->second.partial.empty())
      uses.push_back(&use);
  }
  if (uses.empty())
    return;
  layout.partial.clear();
  for (StringRef axis : over)
    layout.dims[split->dim].emplace_back(axis, split->blocks);
  Value slice = constrain(result, layout, result.getOwner(), /*atUse=*/false);
  for (OpOperand *use : uses)
    use->set(slice);
  ++sums;
}

/// Returns the value of which `value` is a view or a repetition, through any number of them.
static Value viewed(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if ((!isView(op) && !isa<nn::BroadcastOp>(op)) || op->getNumOperands() != 1)
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// Repeats the views between a value and `value` for `same`, which takes the place of the former.
Value SequenceSplitter::viewAgain(Value value, Value from, Value same) {
  if (value == from)
    return same;
  Operation *view = value.getDefiningOp();
  Value operand = viewAgain(view->getOperand(0), from, same);
  builder.setInsertionPointAfterValue(operand);
  Operation *made = builder.clone(*view);
  made->setOperand(0, operand);
  nn::copyPhaseAndScope(operand.getDefiningOp(), made);
  return made->getResult(0);
}

/// Keeps what ops that an axis splits along another dimension read whole: once per phase, so that
/// the backward pass gathers again what the forward pass has gathered. Several views of one value
/// are gathered together.
void SequenceSplitter::gather() {
  llvm::MapVector<std::pair<Value, Attribute>, SmallVector<OpOperand *>> uses;
  for (OpOperand *operand : whole) {
    Value value = viewed(operand->get());
    auto type = dyn_cast<RankedTensorType>(value.getType());
    Operation *source = value.getDefiningOp();
    // Integers are indices, such as the experts of rows. Masks are made where they are read.
    if (!source || source->hasTrait<OpTrait::ConstantLike>() || !type ||
        type.getElementType().isInteger(1) || !rows.splitOf(type.getShape(), /*ranks=*/1))
      continue;
    uses[{value, nn::phaseOf(operand->getOwner())}].push_back(operand);
  }
  for (auto &[key, operands] : uses) {
    Operation *first = operands.front()->getOwner();
    for (OpOperand *operand : operands)
      if (operand->getOwner()->isBeforeInBlock(first))
        first = operand->getOwner();
    auto type = cast<RankedTensorType>(key.first.getType());
    Value same =
        constrain(key.first, TensorLayout::replicated(type.getRank()), first, /*atUse=*/true);
    llvm::DenseMap<Value, Value> again;
    for (OpOperand *operand : operands) {
      Value &view = again[operand->get()];
      if (!view)
        view = viewAgain(operand->get(), key.first, same);
      operand->set(view);
    }
  }
}

LogicalResult SequenceSplitter::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : function.getBody().front().without_terminator())
    if (!isa<GradientPartsOpInterface>(op)) {
      ops.push_back(&op);
      if (failed(read(&op)))
        return failure();
    }
  gather();
  for (Operation *op : ops)
    for (OpResult result : op->getResults())
      if (isa<RankedTensorType>(result.getType()))
        scatter(result);
  return success();
}

/// Returns the rows of the function's batch; without a batch dimension there are none.
static Rows rowsOf(func::FuncOp function, dist::MeshOp mesh) {
  Rows rows;
  rows.tensorRanks = mesh.getRanksThat(dist::splitsValues);
  rows.dataRanks = mesh.getRanksThat(dist::splitsInputs);
  for (BlockArgument argument : function.getArguments())
    if (auto dim =
            function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), nn::kBatchDimAttr);
        dim && dim.getInt() == 0)
      rows.batch = cast<RankedTensorType>(argument.getType()).getDimSize(0);
  return rows;
}

/// Warns that the axes split no rows of a function that has sums over its ranks: which bytes all
/// of them hold instead, and which batches are split.
static void warnOfWholeRows(func::FuncOp function, dist::MeshOp mesh, const AxisList &axes,
                            const Rows &rows) {
  if (rows.batch % rows.dataRanks != 0)
    return; // an error of partition
  int64_t bytes = 0;
  bool sums = false, hasPositions = false;
  llvm::DenseSet<Value> ofBatch;
  for (BlockArgument argument : function.getArguments())
    if (function.getArgAttr(argument.getArgNumber(), nn::kBatchDimAttr))
      ofBatch.insert(argument);
  for (Operation &op : function.front()) {
    if (!nn::isInPhase(&op, nn::Phase::Forward) ||
        llvm::none_of(op.getOperands(), [&](Value operand) { return ofBatch.contains(operand); }))
      continue;
    ofBatch.insert(op.result_begin(), op.result_end());
    for (OpResult result : op.getResults()) {
      std::optional<TensorLayout> layout = getLayout(result);
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (isView(&op) || !layout || !type || type.getRank() < 2 ||
          llvm::any_of(axes, [&](StringRef axis) { return layout->dimOf(axis) >= 0; }) ||
          !isa<FloatType>(type.getElementType()) || type.getDimSize(0) % rows.batch != 0)
        continue;
      sums |= llvm::any_of(
          axes, [&](StringRef axis) { return layout->partialOn(axis) == dist::Reduction::Sum; });
      int64_t positions = type.getDimSize(0) / rows.batch;
      if (positions == 1 && type.getRank() > 2)
        positions = type.getDimSize(1);
      hasPositions |= positions > 1;
      bytes += nn::tensorBytes(localType(type, *layout, mesh));
    }
  }
  if (!sums)
    return;
  int64_t have = rows.batch / rows.dataRanks, next = llvm::alignTo(have, rows.tensorRanks);
  InFlightDiagnostic diag =
      function->getParentOp()->emitWarning("sequence parallelism is off: a data rank has ")
      << have << (have == 1 ? " example" : " examples") << ", which the " << rows.tensorRanks
      << " ranks of axis '" << llvm::join(axes, dist::kJoin)
      << "' cannot divide; each of them computes " << bytes
      << " bytes of the forward pass's activations, instead of " << bytes / rows.tensorRanks
      << "; use a batch of " << next * rows.dataRanks << " (" << next << " per data rank)";
  if (hasPositions)
    diag << ", or a sequence of a multiple of " << rows.tensorRanks << " positions";
  diag << ", or --sequence-parallel false if that is meant";
}

namespace {
struct SplitSequencePass : impl::SplitSequencePassBase<SplitSequencePass> {
  using SplitSequencePassBase::SplitSequencePassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    dist::MeshOp mesh = dist::getMesh(module);
    AxisList axes;
    if (mesh)
      for (StringRef axis : axesByPriority(mesh))
        if (mesh.splitsValues(axis) && mesh.getSize(axis) > 1)
          axes.push_back(axis);
    if (axes.empty() || sequenceParallel == SequenceParallel::Off)
      return;
    int64_t sums = 0;
    func::FuncOp first;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      if (failed(propagate(function, mesh)))
        return signalPassFailure();
      Rows rows = rowsOf(function, mesh);
      if (!first && rows.batch > 0)
        first = function;
      SequenceSplitter splitter(function, mesh, axes, rows);
      if (failed(splitter.run()))
        return signalPassFailure();
      sums += splitter.sums;
    }
    if (sums == 0 && sequenceParallel == SequenceParallel::On) {
      int64_t ranks = mesh.getRanksThat(dist::splitsValues);
      module.emitError("sequence-parallel: the ")
          << ranks << " ranks of axis '" << llvm::join(axes, dist::kJoin)
          << "' cannot split rows: a data rank needs a multiple of " << ranks
          << " examples, or each example such a length";
      return signalPassFailure();
    }
    if (sums == 0 && first)
      warnOfWholeRows(first, mesh, axes, rowsOf(first, mesh));
    emitDecision(module.getLoc(), "split-sequence",
                 std::to_string(sums) + " sums over ranks are scattered over rows");
    // The layouts are found again.
    for (auto function : module.getOps<func::FuncOp>())
      function.walk(removeLayouts);
  }
};
} // namespace

} // namespace shale
