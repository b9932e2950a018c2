//===- ExpertCounts.cpp - Ends of the groups of sorted rows ---------------===//
//
// Models count the rows of an expert by a histogram, by one-hot rows, or by sums of
// ones by index, and add the counts up, before or after a difference. Instead of each form, what
// such ops compute for a single row is evaluated (a local form with one row per rank).
//
//===----------------------------------------------------------------------===//
#include "passes/import/ExpertCounts.h"
#include "dialects/interfaces/Interfaces.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "lib/Analysis/Rows.h"
#include "lib/Folding/Fold.h"
#include "mlir/Analysis/TopologicalSortUtils.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/SetVector.h"
#include <cmath>

using namespace mlir;
using namespace shale;

namespace {

/// Ops that a list of ends may be computed with; other values are no counts.
constexpr unsigned kOpsAtMost = 256;

/// Whether a value differs from row to row, and its part for one row.
struct RowValue {
  enum Kind { Constant, Row, Summed } kind = Constant;
  int64_t dim = -1; ///< of the rows, if it has them
  Value local;      ///< for one row
};

/// The ops that compute ends from the experts of rows, for one row.
class OneRow {
public:
  OneRow(Value experts, int64_t rows) : b(experts.getContext()), rows(rows) {
    b.setInsertionPointToEnd(&block);
    Type type = nn::tensorOf(experts).clone(ArrayRef<int64_t>{1});
    known[experts] = {RowValue::Row, 0, block.addArgument(type, experts.getLoc())};
  }

  /// Adds the experts with dimensions of size 1.
  void addReshaped(Value other, Value experts) {
    SmallVector<int64_t> shape(nn::tensorOf(other).getShape());
    int64_t dim = llvm::find(shape, rows) - shape.begin();
    shape[dim] = 1;
    Value local = known.lookup(experts).local;
    known[other] = {
        RowValue::Row, dim,
        nn::ReshapeOp::create(b, other.getLoc(), nn::tensorOf(other).clone(shape), local)};
  }
  /// Builds the op for one row. Fails if it is another function of the rows.
  LogicalResult add(Operation *op);
  /// Returns what one row of an expert contributes to a summed value, in integers; empty if it is
  /// not exact.
  std::vector<int64_t> contribution(Value value, int64_t expert);
  bool isSummed(Value value) const {
    auto it = known.find(value);
    return it != known.end() && it->second.kind == RowValue::Summed;
  }

private:
  FailureOr<SmallVector<Value>> build(Operation *op, const RowRelation &relation);
  LogicalResult addRows(Operation *op, OpOperand &operand);
  LogicalResult addSummed(Operation *op);
  Value constant(Value value);
  /// Returns the operand as it is for one row; null if it changes from row to row otherwise.
  Value rowOperand(Value operand, int64_t dim);

  OpBuilder b;
  Block block;
  int64_t rows;
  llvm::DenseMap<Value, RowValue> known;
  /// By a constant and its dimension of the rows: what each row has; null if rows differ.
  llvm::DenseMap<std::pair<Value, int64_t>, Value> rowsOfConstants;
  llvm::DenseSet<Value> sums; ///< the local values that are summed over rows
  /// The values of the block's ops for the last expert, and which of them are equal for all
  /// experts.
  llvm::DenseMap<Value, DenseElementsAttr> values;
  llvm::DenseSet<Value> fixed;
};

} // namespace

/// Whether numbers of `rows` rows are exact in an element type. Counts in f32 and wider types are
/// taken as exact: no device has so many rows that they are not.
static bool countsExactly(Type element, int64_t rows) {
  if (auto type = dyn_cast<FloatType>(element); type && type.getWidth() < 32)
    return rows <= int64_t(1) << type.getFPMantissaWidth();
  return !element.isInteger(1);
}

/// Builds an op with one row. Fails if it cannot be.
FailureOr<SmallVector<Value>> OneRow::build(Operation *op, const RowRelation &relation) {
  LocalForm form;
  form.axes.resize(cast<ShardingRuleOpInterface>(op).getShardingRule().factors.size());
  form.axes[relation.factor].push_back({"rows", rows});
  for (auto [value, dim] : llvm::zip(op->getOperands(), relation.operands)) {
    form.operands.push_back(rowOperand(value, dim));
    if (!form.operands.back())
      return failure();
  }
  for (auto [result, dim] : llvm::zip(op->getResults(), relation.results)) {
    SmallVector<int64_t> shape(nn::tensorOf(result).getShape());
    if (dim >= 0)
      shape[dim] = 1;
    form.types.push_back(nn::tensorOf(result).clone(shape));
  }
  if (auto partitionable = dyn_cast<PartitionableOpInterface>(op))
    return partitionable.partition(b, form);
  OperationState state(op->getLoc(), op->getName(), form.operands, form.types, op->getAttrs());
  return SmallVector<Value>(b.create(state)->getResults());
}

Value OneRow::rowOperand(Value operand, int64_t dim) {
  RowValue value = known.lookup(operand);
  if (value.kind == RowValue::Row)
    return value.dim == dim ? value.local : Value();
  if (value.kind == RowValue::Summed)
    return {};
  if (dim < 0)
    return constant(operand);
  auto [it, fresh] = rowsOfConstants.try_emplace({operand, dim});
  if (!fresh)
    return it->second;
  // An operand that depends on the position of a row gets no value: evaluation fails on it.
  auto result = cast<OpResult>(operand);
  RowRelation relation = relateRows(result, dim);
  if (relation.use != RowUse::Each)
    return {};
  FailureOr<SmallVector<Value>> made = build(result.getOwner(), relation);
  if (failed(made))
    return {};
  return rowsOfConstants[{operand, dim}] = (*made)[result.getResultNumber()];
}

LogicalResult OneRow::addRows(Operation *op, OpOperand &operand) {
  RowRelation relation = relateRows(operand, known.lookup(operand.get()).dim);
  if (relation.use == RowUse::None)
    return failure();
  FailureOr<SmallVector<Value>> made = build(op, relation);
  if (failed(made))
    return failure();
  bool isSum = relation.use == RowUse::Sum;
  if (isSum && !countsExactly(nn::tensorOf(op->getResult(0)).getElementType(), rows))
    return failure();
  for (auto [result, local, dim] : llvm::zip(op->getResults(), *made, relation.results)) {
    known[result] = {isSum ? RowValue::Summed : RowValue::Row, dim, local};
    if (isSum)
      sums.insert(local);
  }
  return success();
}

/// Functions of sums must be linear: then they are sums of the functions of rows.
LogicalResult OneRow::addSummed(Operation *op) {
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  if (!sharded || !countsExactly(nn::tensorOf(op->getResult(0)).getElementType(), rows))
    return failure();
  // Integers stay what they are; contribution() checks that they are.
  if (!isa<nn::CastOp>(op)) {
    ShardingRule rule = sharded.getShardingRule();
    int64_t summed = 0;
    for (auto [number, operand] : llvm::enumerate(op->getOperands())) {
      bool isLinear = llvm::is_contained(rule.linear, int64_t(number));
      if (isSummed(operand)) {
        ++summed;
        if (!isLinear)
          return failure();
      } else if (rule.additive && isLinear) {
        return failure(); // a constant that is added once, not once per row
      }
    }
    if (summed > 1 && !rule.additive)
      return failure();
  }
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(isSummed(operand) ? known.lookup(operand).local : constant(operand));
  OperationState state(op->getLoc(), op->getName(), operands, op->getResultTypes(), op->getAttrs());
  for (auto [result, local] : llvm::zip(op->getResults(), b.create(state)->getResults()))
    known[result] = {RowValue::Summed, -1, local}, sums.insert(local);
  return success();
}

LogicalResult OneRow::add(Operation *op) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return failure();
  bool hasSummed = false;
  for (OpOperand &operand : op->getOpOperands()) {
    RowValue value = known.lookup(operand.get());
    if (value.kind == RowValue::Row)
      return addRows(op, operand);
    hasSummed |= value.kind == RowValue::Summed;
  }
  if (hasSummed)
    return addSummed(op);
  return success(); // built where it is read
}

/// Returns a value that no row has a part in.
Value OneRow::constant(Value value) {
  if (auto it = known.find(value); it != known.end())
    return it->second.local;
  IRMapping mapping;
  for (Value operand : value.getDefiningOp()->getOperands())
    mapping.map(operand, constant(operand));
  Value local = b.clone(*value.getDefiningOp(), mapping)->getResult(0);
  known[value] = {RowValue::Constant, -1, local};
  return local;
}

std::vector<int64_t> OneRow::contribution(Value value, int64_t expert) {
  auto argument = nn::tensorOf(block.getArgument(0));
  APInt number(argument.getElementTypeBitWidth(), expert, /*isSigned=*/true);
  values[block.getArgument(0)] = DenseElementsAttr::get(argument, number);
  std::vector<int64_t> integers;
  auto toIntegers = [&](DenseElementsAttr attr) {
    integers.clear();
    if (isa<FloatType>(attr.getElementType())) {
      for (APFloat element : attr.getValues<APFloat>()) {
        double real = element.convertToDouble();
        if (!(std::fabs(real) <= 1) || real != std::trunc(real))
          return false;
        integers.push_back(int64_t(real));
      }
      return true;
    }
    for (APInt element : attr.getValues<APInt>())
      integers.push_back(element.getSExtValue());
    return llvm::all_of(integers, [](int64_t i) { return i >= -1 && i <= 1; });
  };
  for (Operation &op : block) {
    if (fixed.contains(op.getResult(0)))
      continue;
    SmallVector<DenseElementsAttr> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values.lookup(operand));
    auto constant = dyn_cast<nn::ConstantOp>(op);
    DenseElementsAttr result = constant ? dyn_cast<DenseElementsAttr>(constant.getValue())
                               : llvm::is_contained(operands, DenseElementsAttr())
                                   ? DenseElementsAttr()
                                   : folding::fold(&op, operands);
    if (!result)
      return {};
    values[op.getResult(0)] = result;
    if (llvm::all_of(op.getOperands(), [&](Value operand) { return fixed.contains(operand); }))
      fixed.insert(op.getResult(0));
    // Contributions of at most one keep the sums, and casts of them, exact.
    if (sums.contains(op.getResult(0)) && !toIntegers(result))
      return {};
  }
  if (!toIntegers(values.lookup(known.lookup(value).local)))
    return {};
  return integers;
}

/// Returns the value before reshapes.
static Value sourceOf(Value value) {
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// Returns the ops that compute a value from another one, in order; empty if they are too many or
/// something else is read. `others` get values that are the other one with dimensions of size 1.
static llvm::SetVector<Operation *> opsBetween(Value from, Value to,
                                               SmallVectorImpl<Value> &others) {
  llvm::SetVector<Operation *> ops;
  SmallVector<Value> open{to};
  while (!open.empty()) {
    Value value = open.pop_back_val();
    if (value == from)
      continue;
    if (sourceOf(value) == sourceOf(from) &&
        llvm::is_contained(nn::tensorOf(value).getShape(), nn::elements(value))) {
      others.push_back(value);
      continue;
    }
    Operation *op = value.getDefiningOp();
    if (!op || ops.size() > kOpsAtMost)
      return {};
    if (ops.insert(op))
      llvm::append_range(open, op->getOperands());
  }
  return topologicalSort(ops);
}

bool recover::areEndsOf(Value ends, Value experts) {
  int64_t rows = nn::elements(experts), count = nn::elements(ends);
  SmallVector<Value> others;
  llvm::SetVector<Operation *> ops = opsBetween(experts, ends, others);
  if (rows < 2 || ops.empty())
    return false;
  OneRow row(experts, rows);
  for (Value other : others)
    row.addReshaped(other, experts);
  for (Operation *op : ops)
    if (failed(row.add(op)))
      return false;
  if (!row.isSummed(ends))
    return false;
  for (int64_t expert = 0; expert < count; ++expert) {
    std::vector<int64_t> part = row.contribution(ends, expert);
    if (int64_t(part.size()) != count)
      return false;
    for (auto [end, number] : llvm::enumerate(part))
      if (number != (expert <= int64_t(end)))
        return false;
  }
  return true;
}
