//===- RowChunks.cpp - The ops that compute a loss row by row -------------===//
#include "passes/memory/RowChunks.h"
#include "dialects/nn/NN.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace shale {

static std::string nameOf(Operation *op) { return op->getName().getStringRef().str(); }

RankedTensorType ChunkedOp::localType(RankedTensorType type, const TensorFactors &factors) const {
  SmallVector<int64_t> shape(type.getShape());
  for (auto [size, parts] : llvm::zip(shape, factors))
    for (int64_t factor : parts)
      size /= pieces[factor];
  return type.clone(shape);
}

/// Splits the leading ones of `factors` into `count` parts, so that the elements of a tensor with
/// these factors fall into contiguous ranges. Returns false if they cannot be split so.
static bool splitLeading(const ShardingRule &rule, ArrayRef<int64_t> factors, int64_t count,
                         SmallVectorImpl<int64_t> &pieces) {
  for (int64_t factor : factors) {
    if (count == 1)
      return true;
    int64_t size = rule.factors[factor].size;
    FactorKind kind = rule.factors[factor].kind;
    int64_t part = std::min(size, count);
    if (part == 1)
      continue;
    if (part == 0 || size % part != 0 || count % part != 0 ||
        (kind != FactorKind::Parallel && kind != FactorKind::Sum))
      return false;
    pieces[factor] = part;
    count /= part;
  }
  return count == 1;
}

/// Splits the factors of a tensor so that its dimensions have `splits` parts. Returns false if they
/// cannot be split so.
static bool splitAs(const ShardingRule &rule, const TensorFactors &tensor, ArrayRef<int64_t> splits,
                    SmallVectorImpl<int64_t> &pieces) {
  return llvm::all_of(llvm::zip(tensor, splits), [&, &pieces = pieces](auto pair) {
    return splitLeading(rule, std::get<0>(pair), std::get<1>(pair), pieces);
  });
}

/// Returns the number of parts of each dimension of a tensor.
static SmallVector<int64_t> splitsOf(const TensorFactors &tensor, ArrayRef<int64_t> pieces) {
  SmallVector<int64_t> splits;
  for (ArrayRef<int64_t> dim : tensor) {
    splits.push_back(1);
    for (int64_t factor : dim)
      splits.back() *= pieces[factor];
  }
  return splits;
}

/// Returns whether the parts of a tensor are contiguous ranges.
bool RowChunks::areRanges(const ChunkedOp &op, const TensorFactors &tensor) const {
  SmallVector<int64_t> factors, alone(op.pieces.size(), 1);
  for (ArrayRef<int64_t> dim : tensor)
    llvm::append_range(factors, dim);
  return splitLeading(op.rule, factors, count, alone) && alone == op.pieces;
}

/// Enters a value of an op. Returns its part, or nothing if its parts are others than before.
std::optional<RowPart> RowChunks::enter(Value value, const TensorFactors &tensor,
                                        const ChunkedOp &op) {
  SmallVector<int64_t> parts = splitsOf(tensor, op.pieces);
  if (llvm::all_of(parts, [](int64_t number) { return number == 1; }))
    return RowPart::Whole;
  if (splits.try_emplace(value, parts).first->second != parts)
    return std::nullopt;
  // On the other side of a matmul are the hidden states, which may be large, too, where there
  // are few classes.
  bool contracts =
      llvm::any_of(op.rule.factors, [](Factor factor) { return factor.kind == FactorKind::Sum; });
  if (!contracts && nn::elements(value) >= least)
    large.insert(value);
  return RowPart::Chunk;
}

/// Enters an op of which operand or result `split` has parts.
std::string RowChunks::visit(Operation *op, Value split) {
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  if (!sharded)
    return nameOf(op) + " reads or makes all rows";
  if (auto stochastic = dyn_cast<StochasticOpInterface>(op); stochastic && stochastic.drawsRandom())
    return nameOf(op) + " draws other numbers for each row";
  if (isa<RowLossOpInterface>(op) && op != loss)
    return "another loss reads the same logits";
  ChunkedOp chunked;
  chunked.rule = sharded.getShardingRule();
  const ShardingRule &rule = chunked.rule;
  chunked.pieces.assign(rule.factors.size(), 1);
  const TensorFactors *factors = nullptr;
  for (auto [value, tensor] : llvm::zip(op->getOperands(), rule.operands))
    if (value == split)
      factors = &tensor;
  for (auto [value, tensor] : llvm::zip(op->getResults(), rule.results))
    if (value == split)
      factors = &tensor;
  if (!factors || !splitAs(rule, *factors, splits.lookup(split), chunked.pieces))
    return nameOf(op) + " cannot be split into " + std::to_string(count) + " ranges of rows";

  bool fits = true;
  for (auto [value, tensor] : llvm::zip(op->getOperands(), rule.operands)) {
    std::optional<RowPart> part = enter(value, tensor, chunked);
    fits &= part.has_value();
    chunked.operands.push_back(part.value_or(RowPart::Whole));
  }
  bool sums = llvm::any_of(llvm::zip(rule.factors, chunked.pieces), [](auto pair) {
    auto [factor, pieces] = pair;
    return pieces > 1 && factor.kind == FactorKind::Sum;
  });
  for (auto [value, tensor] : llvm::zip(op->getResults(), rule.results)) {
    std::optional<RowPart> part = enter(value, tensor, chunked);
    fits &= part.has_value() && (part != RowPart::Whole || sums);
    chunked.results.push_back(part == RowPart::Chunk ? RowPart::Chunk : RowPart::Term);
  }
  if (!fits)
    return nameOf(op) + " mixes rows";
  auto [it, inserted] = ops.try_emplace(op, chunked);
  return inserted || it->second.pieces == chunked.pieces ? "" : nameOf(op) + " mixes rows";
}

/// Enters the op that makes a value and those that read it.
std::string RowChunks::visitAround(Value value) {
  // A value without operands is sliced: parts of an iota would depend on their place.
  if (Operation *maker = value.getDefiningOp(); maker && maker->getNumOperands() > 0)
    if (std::string why = visit(maker, value); !why.empty())
      return why;
  for (Operation *user : value.getUsers())
    if (std::string why = visit(user, value); !why.empty())
      return why;
  return "";
}

std::optional<RowPart> RowChunks::partMadeOf(Value value) const {
  auto it = ops.find(value.getDefiningOp());
  if (!value.getDefiningOp() || it == ops.end())
    return std::nullopt;
  return it->second.results[cast<OpResult>(value).getResultNumber()];
}

void RowChunks::sortOps() {
  auto entries = ops.takeVector();
  llvm::sort(entries, [](auto &a, auto &b) { return a.first->isBeforeInBlock(b.first); });
  for (auto &entry : entries)
    ops.insert(std::move(entry));
}

/// Enters the small ops between two that are entered: those that exchange a number per row with
/// other ranks, for example.
std::string RowChunks::visitBetween() {
  sortOps();
  Operation *first = ops.front().first, *last = ops.back().first;
  llvm::DenseSet<Operation *> leads; // to an op that is entered
  for (Operation *op = last; op != first; op = op->getPrevNode())
    if (ops.contains(op) || leads.contains(op))
      for (Value operand : op->getOperands())
        if (Operation *maker = operand.getDefiningOp())
          leads.insert(maker);
  for (Operation *op = first; op != last; op = op->getNextNode()) {
    if (ops.contains(op) || !leads.contains(op))
      continue;
    for (Value operand : op->getOperands())
      if (partMadeOf(operand) == RowPart::Chunk) {
        if (std::string why = visit(op, operand); !why.empty())
          return why;
        break;
      }
  }
  return "";
}

/// Checks that the chunks read and leave contiguous ranges of other ops' values.
std::string RowChunks::checkRanges() const {
  for (auto &[op, chunked] : ops) {
    for (auto [value, part, tensor] :
         llvm::zip(op->getOperands(), chunked.operands, chunked.rule.operands))
      if (part == RowPart::Chunk && !partMadeOf(value) && !areRanges(chunked, tensor))
        return nameOf(op) + " mixes rows";
    for (auto [value, part, tensor] :
         llvm::zip(op->getResults(), chunked.results, chunked.rule.results))
      if (part == RowPart::Chunk && !areRanges(chunked, tensor) &&
          llvm::any_of(value.getUsers(), [&](Operation *user) { return !ops.contains(user); }))
        return nameOf(op) + " mixes rows";
  }
  return "";
}

/// Checks that chunks depend on earlier ones by sums only, and finds what depends on the ops.
std::string RowChunks::findOrder() {
  sortOps();
  llvm::DenseSet<Operation *> depends;
  Operation *last = ops.back().first;
  for (Operation *op = ops.front().first; op != last->getNextNode(); op = op->getNextNode()) {
    auto it = ops.find(op);
    bool chunked = it != ops.end(), late = false;
    for (OpOperand &operand : op->getOpOperands()) {
      Operation *maker = operand.get().getDefiningOp();
      std::optional<RowPart> made = partMadeOf(operand.get());
      if (chunked && made && *made != it->second.operands[operand.getOperandNumber()])
        return nameOf(op) + " needs the results of all rows";
      late |= made || (maker && depends.contains(maker));
      if (chunked && maker && depends.contains(maker))
        return nameOf(op) + " needs a value that depends on the loss";
    }
    if (!chunked && late) {
      depends.insert(op);
      dependents.push_back(op);
    }
  }
  return "";
}

std::string RowChunks::collect(RowLossOpInterface of, int64_t chunks) {
  loss = of;
  count = chunks;
  least = nn::elements(loss.getLogits()) / 2;
  large.insert(loss.getLogits());
  splits[loss.getLogits()] = {count, 1};
  size_t visited = 0, known = 0;
  do {
    for (; visited < large.size(); ++visited)
      if (std::string why = visitAround(large[visited]); !why.empty())
        return why;
    for (auto &[op, chunked] : ops)
      if (op->getBlock() != loss->getBlock() || op->getNumRegions() != 0)
        return nameOf(op) + " has a region";
    known = ops.size();
    if (std::string why = visitBetween(); !why.empty())
      return why;
  } while (ops.size() > known);
  if (std::string why = checkRanges(); !why.empty())
    return why;
  return findOrder();
}

} // namespace shale
