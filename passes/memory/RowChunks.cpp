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

/// Splits the leading factors of a tensor so that its elements fall into `count` contiguous ranges.
/// Returns false if they cannot be split so.
static bool splitLeading(const ShardingRule &rule, const TensorFactors &tensor, int64_t count,
                         SmallVectorImpl<int64_t> &pieces) {
  for (ArrayRef<int64_t> dim : tensor)
    for (int64_t factor : dim) {
      if (count == 1)
        return true;
      auto [size, kind] = rule.factors[factor];
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

/// Returns whether a tensor has one contiguous range per chunk, or none of the split factors.
/// Nothing if it has them in another place.
static std::optional<RowPart> partOf(const ShardingRule &rule, const TensorFactors &tensor,
                                     ArrayRef<int64_t> pieces, int64_t count) {
  bool any = false;
  for (ArrayRef<int64_t> dim : tensor)
    for (int64_t factor : dim)
      any |= pieces[factor] > 1;
  if (!any)
    return RowPart::Whole;
  SmallVector<int64_t> alone(rule.factors.size(), 1);
  if (!splitLeading(rule, tensor, count, alone) || ArrayRef<int64_t>(alone) != pieces)
    return std::nullopt;
  return RowPart::Chunk;
}

/// Enters an op of which operand or result `split` is split.
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
  std::optional<TensorFactors> factors;
  for (auto [value, tensor] : llvm::zip(op->getOperands(), rule.operands))
    if (value == split)
      factors = tensor;
  for (auto [value, tensor] : llvm::zip(op->getResults(), rule.results))
    if (value == split)
      factors = tensor;
  if (!factors || !splitLeading(rule, *factors, count, chunked.pieces))
    return nameOf(op) + " cannot be split into " + std::to_string(count) + " ranges of rows";

  bool sums = false, contracts = false;
  for (auto [factor, pieces] : llvm::zip(rule.factors, chunked.pieces)) {
    contracts |= factor.kind == FactorKind::Sum;
    sums |= pieces > 1 && factor.kind == FactorKind::Sum;
  }
  auto enter = [&](Value value, const TensorFactors &tensor, SmallVectorImpl<RowPart> &parts) {
    std::optional<RowPart> part = partOf(rule, tensor, chunked.pieces, count);
    parts.push_back(part.value_or(RowPart::Whole));
    // On the other side of a product are the hidden states, which may be large, too, where there
    // are few classes.
    if (part == RowPart::Chunk && !contracts && nn::elements(value) >= least)
      large.insert(value);
    return part.has_value();
  };
  bool fits = true;
  for (auto [value, tensor] : llvm::zip(op->getOperands(), rule.operands))
    fits &= enter(value, tensor, chunked.operands);
  for (auto [value, tensor] : llvm::zip(op->getResults(), rule.results)) {
    fits &= enter(value, tensor, chunked.results);
    if (chunked.results.back() == RowPart::Whole) {
      fits &= sums;
      chunked.results.back() = RowPart::Term;
    }
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

/// Checks that chunks depend on earlier ones by sums only, and finds what depends on the ops.
std::string RowChunks::findOrder() {
  auto entries = ops.takeVector();
  llvm::sort(entries, [](auto &a, auto &b) { return a.first->isBeforeInBlock(b.first); });
  for (auto &entry : entries)
    ops.insert(std::move(entry));
  auto partMadeOf = [&](Value value) -> std::optional<RowPart> {
    auto it = ops.find(value.getDefiningOp());
    if (!value.getDefiningOp() || it == ops.end())
      return std::nullopt;
    return it->second.results[cast<OpResult>(value).getResultNumber()];
  };
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
  for (size_t i = 0; i < large.size(); ++i)
    if (std::string why = visitAround(large[i]); !why.empty())
      return why;
  for (auto &[op, chunked] : ops)
    if (op->getBlock() != loss->getBlock() || op->getNumRegions() != 0)
      return nameOf(op) + " has a region";
  return findOrder();
}

} // namespace shale
