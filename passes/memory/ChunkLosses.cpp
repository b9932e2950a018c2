//===- ChunkLosses.cpp - Computes losses in chunks of rows ----------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Loss.h"
#include "dialects/nn/Ops/Matmul.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/Target.h"
#include "mlir/IR/IRMapping.h"
#include "passes/memory/Passes.h"
#include "passes/memory/RowChunks.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_CHUNKLOSSESPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// Each chunk is a copy of the ops, and the program grows with their number.
constexpr int64_t kMostChunks = 256;
/// With `auto`, smaller logits (in bytes, as f32) stay whole.
constexpr int64_t kSmallLogits = int64_t(64) << 20;

/// Records the ops that are built.
struct Recorder : CopyAttributes {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint point) override {
    made.push_back(op);
    CopyAttributes::notifyOperationInserted(op, point);
    if (phase)
      op->setAttr(nn::kPhaseAttr, phase);
  }
  void eraseAll() {
    for (Operation *op : llvm::reverse(made))
      op->erase();
  }

  /// If set, the phase of all ops.
  Attribute phase;
  SmallVector<Operation *> made;
};

/// Builds the chunks and replaces the ops.
class Rebuilder {
public:
  Rebuilder(const RowChunks &chunks, MLIRContext *context)
      : chunks(chunks), builder(context, &recorder) {}
  /// Returns why the parts cannot be built, or an empty string. Builds nothing then.
  std::string run();

private:
  Value slice(Value value, RankedTensorType local);
  Value buildLocal(Value value, RankedTensorType local);
  FailureOr<SmallVector<Value>> buildForm(PartitionableOpInterface op, const LocalForm &form);
  FailureOr<SmallVector<Value>> buildPart(Operation *op, const ChunkedOp &chunked);
  LogicalResult buildChunk();
  void add(Value &sum, Value term);
  Value join(ArrayRef<Value> parts, RankedTensorType type);

  const RowChunks &chunks;
  Recorder recorder;
  OpBuilder builder;
  int64_t chunk = 0;
  /// A chunk's values, by the value that they are a part of.
  IRMapping parts;
  /// For each result that other ops read: the parts built so far, or their sum.
  llvm::MapVector<Value, SmallVector<Value>> pieces;
};

} // namespace

/// Returns the chunk's range of a value: a view, since the range is contiguous.
Value Rebuilder::slice(Value value, RankedTensorType local) {
  auto type = cast<RankedTensorType>(value.getType());
  Location loc = value.getLoc();
  bool rowsOnly = type.getShape().drop_front() == local.getShape().drop_front();
  auto whole =
      rowsOnly ? type : type.clone({chunks.getCount(), type.getNumElements() / chunks.getCount()});
  SmallVector<int64_t> starts(whole.getRank(), 0), limits(whole.getShape()),
      strides(whole.getRank(), 1);
  int64_t rows = whole.getDimSize(0) / chunks.getCount();
  starts[0] = chunk * rows, limits[0] = starts[0] + rows;
  if (!rowsOnly)
    value = nn::ReshapeOp::create(builder, loc, whole, value);
  SmallVector<int64_t> shape(whole.getShape());
  shape[0] = rows;
  Value range =
      nn::SliceOp::create(builder, loc, type.clone(shape), value, starts, limits, strides);
  return rowsOnly ? range : Value(nn::ReshapeOp::create(builder, loc, local, range));
}

/// Builds the local form of an op. Fails, and builds nothing, if it reads the rank's coordinate: a
/// chunk has none.
FailureOr<SmallVector<Value>> Rebuilder::buildForm(PartitionableOpInterface op,
                                                   const LocalForm &form) {
  size_t before = recorder.made.size();
  FailureOr<SmallVector<Value>> results = op.partition(builder, form);
  auto made = MutableArrayRef(recorder.made).drop_front(before);
  if (succeeded(results) &&
      llvm::none_of(made, [](Operation *op) { return isa<dist::DistDialect>(op->getDialect()); }))
    return results;
  for (Operation *op : llvm::reverse(made))
    op->erase();
  recorder.made.resize(before);
  return failure();
}

/// Builds a chunk's range of a value that its op makes from nothing, a constant for example, as a
/// small one. Returns null if it depends on the range.
Value Rebuilder::buildLocal(Value value, RankedTensorType local) {
  Operation *maker = value.getDefiningOp();
  auto sharded = dyn_cast_or_null<ShardingRuleOpInterface>(maker);
  auto partitionable = dyn_cast_or_null<PartitionableOpInterface>(maker);
  if (!sharded || !partitionable || maker->getNumOperands() != 0 || maker->getNumResults() != 1)
    return {};
  ShardingRule rule = sharded.getShardingRule();
  LocalForm form;
  form.types.push_back(local);
  form.axes.resize(rule.factors.size());
  auto type = cast<RankedTensorType>(value.getType());
  for (auto [factors, size, part] : llvm::zip(rule.results[0], type.getShape(), local.getShape())) {
    if (size == part)
      continue;
    if (factors.size() != 1)
      return {};
    form.axes[factors[0]].push_back(SplitAxis{"chunk", size / part});
  }
  recorder.current = maker;
  FailureOr<SmallVector<Value>> results = buildForm(partitionable, form);
  return succeeded(results) ? results->front() : Value();
}

FailureOr<SmallVector<Value>> Rebuilder::buildPart(Operation *op, const ChunkedOp &chunked) {
  LocalForm form;
  for (int64_t count : chunked.pieces)
    form.axes.emplace_back(count > 1 ? 1 : 0, SplitAxis{"chunk", count});
  for (auto [value, part, factors] :
       llvm::zip(op->getOperands(), chunked.operands, chunked.rule.operands)) {
    if (part == RowPart::Chunk && !parts.contains(value)) {
      auto local = chunked.localType(cast<RankedTensorType>(value.getType()), factors);
      Value small = buildLocal(value, local);
      recorder.current = op;
      parts.map(value, small ? small : slice(value, local));
    }
    form.operands.push_back(part == RowPart::Chunk ? parts.lookup(value) : value);
  }
  recorder.current = op;
  for (auto [result, part, factors] :
       llvm::zip(op->getResults(), chunked.results, chunked.rule.results)) {
    RankedTensorType type = chunked.localType(cast<RankedTensorType>(result.getType()), factors);
    // Terms are added before they are rounded.
    if (part == RowPart::Term && isa<nn::MatmulOp>(op))
      type = type.clone(accumulatorType(type.getElementType()));
    form.types.push_back(type);
  }
  if (auto partitionable = dyn_cast<PartitionableOpInterface>(op))
    return buildForm(partitionable, form);
  return SmallVector<Value>(cloneAs(builder, op, form.operands, form.types)->getResults());
}

/// Adds a term; a matmul adds itself.
void Rebuilder::add(Value &sum, Value term) {
  Location loc = term.getLoc();
  auto matmul = term.getDefiningOp<nn::MatmulOp>();
  if (!matmul || matmul.getQuantizedAttr()) {
    sum = nn::AddOp::create(builder, loc, sum, term);
    return;
  }
  sum = nn::MatmulAddOp::create(builder, loc, sum.getType(), sum, matmul.getLhs(), matmul.getRhs(),
                                matmul.getTransposeLhs(), matmul.getTransposeRhs());
  llvm::erase(recorder.made, matmul.getOperation());
  matmul.erase();
}

LogicalResult Rebuilder::buildChunk() {
  parts.clear();
  for (auto &[op, chunked] : chunks.getOps()) {
    FailureOr<SmallVector<Value>> results = buildPart(op, chunked);
    if (failed(results))
      return failure();
    for (auto [value, part, kind] : llvm::zip(op->getResults(), *results, chunked.results)) {
      parts.map(value, part);
      bool leaves = llvm::any_of(value.getUsers(),
                                 [&](Operation *user) { return !chunks.getOps().contains(user); });
      if (!leaves)
        continue;
      SmallVector<Value> &all = pieces[value];
      Type element = cast<RankedTensorType>(part.getType()).getElementType();
      if (kind == RowPart::Term && accumulatorType(element) != element)
        part = nn::CastOp::create(
            builder, part.getLoc(),
            cast<RankedTensorType>(part.getType()).clone(accumulatorType(element)), part);
      if (kind == RowPart::Term && !all.empty())
        add(all.front(), part);
      else
        all.push_back(part);
    }
  }
  return success();
}

/// Joins contiguous ranges, or returns the sum in the result's type.
Value Rebuilder::join(ArrayRef<Value> parts, RankedTensorType type) {
  Location loc = parts.front().getLoc();
  if (parts.size() == 1)
    return parts.front().getType() == type
               ? parts.front()
               : Value(nn::CastOp::create(builder, loc, type, parts.front()));
  auto local = cast<RankedTensorType>(parts.front().getType());
  if (type.getShape().drop_front() == local.getShape().drop_front())
    return nn::ConcatOp::create(builder, loc, type, parts, 0);
  int64_t count = parts.size();
  SmallVector<Value> flat;
  for (Value part : parts)
    flat.push_back(
        nn::ReshapeOp::create(builder, loc, type.clone({1, type.getNumElements() / count}), part));
  Value whole = nn::ConcatOp::create(builder, loc,
                                     type.clone({count, type.getNumElements() / count}), flat, 0);
  return nn::ReshapeOp::create(builder, loc, type, whole);
}

std::string Rebuilder::run() {
  const auto &ops = chunks.getOps();
  for (auto &[op, chunked] : ops)
    if (nn::isInPhase(op, nn::Phase::Backward))
      recorder.phase = nn::phaseOf(op); // the loss is then the start of the backward pass
  builder.setInsertionPointAfter(ops.back().first);
  for (chunk = 0; chunk < chunks.getCount(); ++chunk)
    if (failed(buildChunk())) {
      std::string why =
          recorder.current->getName().getStringRef().str() + " has no part for a chunk";
      recorder.eraseAll();
      return why;
    }
  for (auto &[value, all] : pieces) {
    recorder.current = value.getDefiningOp();
    value.replaceUsesWithIf(join(all, cast<RankedTensorType>(value.getType())),
                            [&](OpOperand &use) { return !ops.contains(use.getOwner()); });
  }
  for (Operation *op : chunks.getDependents())
    op->moveBefore(&*builder.getInsertionPoint());
  for (auto &[op, chunked] : llvm::reverse(ops))
    op->erase();
  return "";
}

/// Results of a loss that do not depend on its logits, computed in front of it.
class IndependentResults {
public:
  explicit IndependentResults(RowLossOpInterface loss) : loss(loss) {
    recorder.current = loss;
    OpBuilder builder(loss.getContext(), &recorder);
    builder.setInsertionPoint(loss);
    values = loss.buildWithoutLogits(builder);
    bool used = false;
    for (auto [result, value] : llvm::zip(loss->getResults(), values)) {
      if (!value)
        continue;
      used |= !result.use_empty();
      result.replaceAllUsesWith(value);
    }
    if (!used)
      undo();
  }
  void undo() {
    for (auto [result, value] : llvm::zip(loss->getResults(), values))
      if (value)
        value.replaceAllUsesWith(result);
    recorder.eraseAll();
    values.clear();
    recorder.made.clear();
  }

private:
  RowLossOpInterface loss;
  Recorder recorder;
  SmallVector<Value> values;
};

/// Returns the numbers of chunks to try: `wanted`, up to four times as many, then fewer.
static SmallVector<int64_t> countsNear(int64_t wanted, int64_t rows) {
  SmallVector<int64_t> counts;
  auto tryCount = [&](int64_t count) {
    if (rows % count == 0)
      counts.push_back(count);
  };
  int64_t least = std::min(wanted, kMostChunks);
  for (int64_t count = least; count <= std::min({4 * wanted, kMostChunks, rows}); ++count)
    tryCount(count);
  for (int64_t count = least - 1; count > 1; --count)
    tryCount(count);
  return counts;
}

/// Computes the loss in chunks of about `rows` rows if that is possible.
static void chunk(RowLossOpInterface loss, int64_t rows) {
  int64_t all = cast<RankedTensorType>(loss.getLogits().getType()).getDimSize(0);
  int64_t wanted = llvm::divideCeil(all, rows);
  if (nn::elements(loss.getLogits()) == 0 || wanted < 2)
    return;
  IndependentResults independent(loss);
  std::string why; // of the first number of chunks that was tried
  for (int64_t count : countsNear(wanted, all)) {
    RowChunks chunks;
    std::string wrong = chunks.collect(loss, count);
    Location loc = loss.getLoc();
    if (wrong.empty())
      wrong = Rebuilder(chunks, loss.getContext()).run();
    if (wrong.empty())
      return emitDecision(loc, "chunk-losses",
                          "the loss over " + Twine(all) + " rows is computed in " + Twine(count) +
                              " chunks");
    if (why.empty())
      why = wrong;
  }
  if (why.empty())
    why = std::to_string(all) + " rows have no divisor that fits";
  emitDecision(loss.getLoc(), "chunk-losses",
               "the loss over " + Twine(all) + " rows is computed at once: " + why);
  independent.undo();
}

namespace {
struct ChunkLossesPass : impl::ChunkLossesPassBase<ChunkLossesPass> {
  using ChunkLossesPassBase::ChunkLossesPassBase;
  void runOnOperation() final {
    if (lossChunk.kind == LossChunk::Off)
      return;
    int64_t most = lossChunk.rows;
    if (lossChunk.kind == LossChunk::Auto) {
      const Target *target = targetOf(getOperation());
      if (!target)
        return signalPassFailure();
      most = target->lossChunkRows();
    }
    SmallVector<RowLossOpInterface> losses;
    getOperation().walk([&](RowLossOpInterface loss) { losses.push_back(loss); });
    for (RowLossOpInterface loss : losses)
      if (lossChunk.kind == LossChunk::Rows ||
          nn::elements(loss.getLogits()) >= kSmallLogits / int64_t(sizeof(float)))
        chunk(loss, most);
  }
};
} // namespace

} // namespace shale
