//===- KernelReads.cpp - Elements that a kernel reads per written element -===//
#include "lib/Analysis/KernelReads.h"
#include "dialects/interfaces/Interfaces.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Ops/Segments.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"
#include <map>
#include <set>

using namespace mlir;
using namespace shale;

/// Returns rows and columns of a result that reduces columns over parts of the rows; else zeros.
static std::pair<int64_t, int64_t> columnsOf(Value result) {
  auto op = result.getDefiningOp<nn::ReduceOp>();
  if (!op || nn::elements(result) == 0)
    return {0, 0};
  std::optional<nn::ColumnReduction> sizes = nn::matchColumns(op);
  return sizes ? std::pair(sizes->outer * sizes->each, sizes->inner)
               : std::pair<int64_t, int64_t>();
}

std::optional<KernelRows> shale::findKernelRows(Block &body) {
  Operation *yield = body.getTerminator();
  using Sizes = std::pair<int64_t, int64_t>;
  auto fits = [&](Sizes sizes) {
    int64_t rows = sizes.first, columns = sizes.second;
    return rows > 0 && llvm::all_of(yield->getOperands(), [&](Value result) {
             return nn::elements(result) == rows || nn::elements(result) == rows * columns ||
                    columnsOf(result) == sizes;
           });
  };
  auto split = [&](Operation &op) -> Sizes {
    auto indexed = dyn_cast<IndexedOpInterface>(op);
    if (!indexed || op.getNumOperands() != 1 || indexed.getAccess(0) != Access::Reduces ||
        nn::elements(op.getResult(0)) == 0)
      return {0, 0};
    int64_t rows = nn::elements(op.getResult(0));
    Sizes sizes = {rows, nn::elements(op.getOperand(0)) / rows};
    return fits(sizes) ? sizes : Sizes{0, 0};
  };
  KernelRows found;
  for (Operation &op : body.without_terminator())
    if (auto [rows, columns] = split(op); rows * columns > found.rows * found.columns)
      std::tie(found.rows, found.columns) = {rows, columns};
  bool onlySums =
      llvm::all_of(yield->getOperands(), [](Value result) { return columnsOf(result).first > 0; });
  if (found.rows == 0 && !onlySums)
    for (Value result : yield->getOperands())
      if (fits(columnsOf(result)))
        std::tie(found.rows, found.columns) = columnsOf(result);
  if (found.rows == 0)
    return std::nullopt;
  Sizes sizes = {found.rows, found.columns};
  for (Operation &op : body.without_terminator())
    if (split(op) == sizes)
      found.reductions.push_back(&op);
  for (Value result : yield->getOperands())
    if (columnsOf(result) == sizes)
      found.sums.push_back(result.getDefiningOp());
  return found;
}

namespace {

/// Returns at most `most` numbers of [0, size), including both ends; all of them if they are at
/// most `most`.
SmallVector<int64_t> sample(int64_t size, int64_t most) {
  SmallVector<int64_t> picked;
  if (size <= most) {
    for (int64_t i = 0; i < size; ++i)
      picked.push_back(i);
    return picked;
  }
  uint64_t state = 0x9e3779b97f4a7c15;
  for (int64_t i = 0; i < most; ++i) {
    state = state * 6364136223846793005 + 1442695040888963407;
    picked.push_back(i == 0 ? 0 : i == 1 ? size - 1 : int64_t((state >> 16) % uint64_t(size)));
  }
  return picked;
}

/// Follows elements through the body with constant indices and records the elements of
/// one argument that are read. An index known only at run time is the dimension `kUnknown`.
class ReadProbe final : public ElementEmitter {
public:
  ReadProbe(Value argument, const KernelRows *rows)
      : argument(argument), rows(rows), loc(argument.getLoc()), b(argument.getContext()) {
    b.setInsertionPointToEnd(&block);
    dependent.insert(argument);
    for (Operation &op : *argument.getParentBlock())
      if (llvm::any_of(op.getOperands(),
                       [&](Value operand) { return dependent.contains(operand); }))
        dependent.insert_range(op.getResults());
  }

  /// Clears the reads of the previous element.
  void reset() {
    reads.clear();
    seen.clear();
  }

  struct Read {
    int64_t index;    ///< -1: known only at run time
    bool inReduction; ///< read by a reduction of a row, which completes before the row is written
    bool operator<(const Read &other) const {
      return std::tie(index, inReduction) < std::tie(other.index, other.inReduction);
    }
  };
  std::set<Read> reads;
  /// An op whose reads are unknown, or null.
  Operation *opaque = nullptr;

  Value emit(Value value, const LinearIndex &index) override {
    Value nothing = zero(cast<RankedTensorType>(value.getType()).getElementType());
    if (!dependent.contains(value))
      return nothing;
    if (value == argument)
      reads.insert({index.terms.empty() ? index.constant : -1, inReduction});
    Operation *op = value.getDefiningOp();
    if (!op || !seen.insert({value.getAsOpaquePointer(), {index, inReduction}}).second)
      return nothing;
    if (isa<ElementwiseOpInterface>(op)) {
      for (Value operand : op->getOperands())
        emit(operand, index);
      return nothing;
    }
    auto indexed = dyn_cast<IndexedOpInterface>(op);
    if (!indexed || op->hasTrait<nn::StoredResult>()) {
      opaque = op;
      return nothing;
    }
    bool outer = inReduction;
    inReduction |= rows && llvm::is_contained(rows->reductions, op);
    indexed.emitAt(*this, index);
    inReduction = outer;
    return nothing;
  }

  bool divideBy(const LinearIndex &index, int64_t divisor, LinearIndex &quotient,
                LinearIndex &remainder) override {
    if (!index.terms.empty()) {
      quotient = remainder = LinearIndex::dim(kUnknown);
      return true;
    }
    quotient.constant = llvm::divideFloorSigned(index.constant, divisor);
    remainder.constant = index.constant - quotient.constant * divisor;
    return true;
  }

  Within within(const LinearIndex &index, int64_t lo, int64_t hi, LinearIndex &relative,
                Value &condition) override {
    relative = index.plus(-lo);
    if (index.terms.empty())
      return index.constant >= lo && index.constant < hi ? Within::Always : Within::Never;
    condition = zero(b.getI1Type());
    return Within::Sometimes;
  }

  Value number(const LinearIndex &, Type element) override { return zero(element); }

  bool runtimeDim(Value, int64_t, LinearIndex &index, Value &inside) override {
    index = LinearIndex::dim(kUnknown);
    inside = zero(b.getI1Type());
    return true;
  }

  Value loop(const LinearIndex &, int64_t size, Value initial,
             function_ref<Value(const LinearIndex &, Value)> body) override {
    for (int64_t i : sample(size, 8))
      body(LinearIndex{i, {}}, initial);
    return initial;
  }

  Value widen(const LinearIndex &, Value value) override { return value; }
  OpBuilder &builder() override { return b; }

private:
  /// Returns a placeholder for any value of the type: only indices matter here.
  Value zero(Type type) {
    Value &value = zeros[type];
    if (!value)
      value = constantLike(b, loc, type, 0);
    return value;
  }

  static constexpr unsigned kUnknown = 0;
  Value argument;
  const KernelRows *rows;
  Location loc;
  OpBuilder b;
  Block block; // holds temporary ops
  DenseMap<Type, Value> zeros;
  DenseSet<Value> dependent; // values that depend on the argument; no others are followed
  bool inReduction = false;
  std::set<std::pair<void *, std::pair<LinearIndex, bool>>> seen;
};

} // namespace

std::string shale::findHazard(Block &body, unsigned result, unsigned argument) {
  Operation *yield = body.getTerminator();
  Value output = yield->getOperand(result), input = body.getArgument(argument);
  // An optimizer update reads only the element of the parameter, gradient and state that it writes.
  if (auto update = dyn_cast_or_null<OptimizerUpdateOpInterface>(output.getDefiningOp()))
    if (llvm::any_of(update.getOwnOperands(),
                     [&](OpOperand *operand) { return operand->get() == input; }))
      return "";
  int64_t count = nn::elements(output);
  if (count != nn::elements(input))
    return "they have different numbers of elements";
  std::optional<KernelRows> rows = findKernelRows(body);
  int64_t rowCount = rows ? rows->rows : count;
  for (Value other : yield->getOperands())
    rowCount = rows ? rowCount : std::min(rowCount, nn::elements(other));
  if (count == 0 || rowCount == 0)
    return "";
  auto isSum = [&](Value value) {
    return rows && llvm::is_contained(rows->sums, value.getDefiningOp());
  };
  if (isSum(output))
    return "it is complete only after all rows";
  ReadProbe probe(input, rows ? &*rows : nullptr);
  for (Value other : yield->getOperands()) {
    if (isSum(other))
      other = other.getDefiningOp()->getOperand(0);
    int64_t otherCount = nn::elements(other);
    for (int64_t index : sample(otherCount, 64)) {
      probe.reset();
      probe.emit(other, LinearIndex{index, {}});
      if (probe.opaque)
        return "'" + probe.opaque->getName().getStringRef().str() + "' may read any element of it";
      for (const ReadProbe::Read &read : probe.reads) {
        int64_t row = index / std::max<int64_t>(1, otherCount / rowCount);
        bool sameRow =
            read.index >= 0 && read.index / std::max<int64_t>(1, count / rowCount) == row;
        // An output with one value per row is written after the other elements of the row.
        bool own = (otherCount == count && read.index == index) ||
                   (sameRow && (read.inReduction || count == rowCount));
        if (!own)
          return "element " + std::to_string(index) + " of a result depends on element " +
                 (read.index < 0 ? std::string("known at run time only")
                                 : std::to_string(read.index));
      }
    }
  }
  return "";
}
