//===- RowForm.cpp - Rows and columns of a kernel -------------------------===//
#include "lib/Codegen/RowForm.h"
#include "dialects/nn/Ops/Data.h"

using namespace mlir;
using namespace shale;

/// Whether a reduction is over trailing dimensions, so that it has one result element per row.
static bool reducesRows(nn::ReduceOp op) {
  int64_t rank = cast<RankedTensorType>(op.getInput().getType()).getRank();
  int64_t first = rank - op.getDims().size();
  for (auto [i, dim] : llvm::enumerate(op.getDims()))
    if (dim != first + int64_t(i))
      return false;
  return true;
}

static void initialStages(RowForm &form) {
  form.stages.assign(form.levels + 1, {Box{0, {{form.columns, 1}}}});
}

std::optional<MatrixTranspose> shale::matchTranspose(nn::TransposeOp op) {
  ArrayRef<int64_t> shape = op.getInput().getType().getShape();
  // Dimensions of size 1 do not move elements.
  SmallVector<int64_t> perm;
  for (int64_t dim : op.getPerm())
    if (shape[dim] != 1)
      perm.push_back(dim);
  SmallVector<int64_t> sorted = llvm::to_vector(perm);
  llvm::sort(sorted);
  size_t first = 0;
  while (first < perm.size() && perm[first] == sorted[first])
    ++first;
  if (first == perm.size())
    return std::nullopt;
  // The rest of `sorted`, rotated.
  size_t columns = llvm::find(perm, sorted[first]) - perm.begin() - first;
  std::rotate(sorted.begin() + first, sorted.end() - columns, sorted.end());
  if (perm != sorted)
    return std::nullopt;
  MatrixTranspose sizes;
  for (auto [i, dim] : llvm::enumerate(perm))
    (i < first ? sizes.outer : i < first + columns ? sizes.columns : sizes.rows) *= shape[dim];
  return sizes;
}

/// Returns the sizes of the sum of columns, in f32, that computes an output, if one does.
static std::optional<nn::ColumnReduction> columnSumOf(Value output) {
  auto op = output.getDefiningOp<nn::ReduceOp>();
  if (!op || op.getKind() != nn::ReduceKind::Sum || !op.getType().getElementType().isF32() ||
      !output.hasOneUse())
    return std::nullopt;
  return nn::matchColumns(op);
}

namespace {

/// Finds the rows and columns of a kernel.
class Chooser {
public:
  Chooser(Region &body, bool columnSums)
      : block(body.front()), yield(block.getTerminator()), columnSums(columnSums) {}

  FailureOr<RowForm> run() {
    if (yield->getNumOperands() == 0)
      return yield->emitOpError() << "a kernel without outputs";
    if (nn::ReduceOp leading = findLeading()) {
      int64_t rows = nn::elements(leading.getResult());
      return rowForm(rows, nn::elements(leading.getInput()) / rows);
    }
    for (Value output : yield->getOperands())
      if (auto sum = columnSumOf(output);
          sum && columnSums && !onlySums() && fits(sum->outer * sum->each, sum->inner))
        return rowForm(sum->outer * sum->each, sum->inner);
    return formOfOutputs();
  }

private:
  /// Whether an output has the sums of columns of parts of the rows.
  bool isSum(Value output, int64_t rows, int64_t columns) const {
    auto sum = columnSums ? columnSumOf(output) : std::nullopt;
    return sum && sum->outer > 0 && sum->outer * sum->each == rows && sum->inner == columns;
  }

  bool onlySums() const {
    return llvm::all_of(yield->getOperands(),
                        [](Value output) { return columnSumOf(output).has_value(); });
  }

  /// Whether each output has an element per row, all elements, or sums of columns; all sums have
  /// the same parts.
  bool fits(int64_t rows, int64_t columns) const {
    int64_t parts = 0;
    return llvm::all_of(yield->getOperands(), [&](Value output) {
      if (!isSum(output, rows, columns))
        return nn::elements(output) == rows || nn::elements(output) == rows * columns;
      bool first = parts == 0;
      int64_t own = columnSumOf(output)->outer;
      parts = first ? own : parts;
      return parts == own;
    });
  }

  /// Returns the widest reduction over rows that the outputs fit.
  nn::ReduceOp findLeading() const {
    nn::ReduceOp leading;
    for (auto op : block.getOps<nn::ReduceOp>())
      if (reducesRows(op) && nn::elements(op.getResult()) > 0 &&
          fits(nn::elements(op.getResult()),
               nn::elements(op.getInput()) / nn::elements(op.getResult())) &&
          (!leading || nn::elements(op.getInput()) > nn::elements(leading.getInput())))
        leading = op;
    return leading;
  }

  RowForm rowForm(int64_t rows, int64_t columns) const {
    RowForm form;
    form.rows = rows;
    form.columns = columns;
    DenseMap<Value, unsigned> needs; // number of levels that must be complete before the value
    for (Operation &op : block.without_terminator()) {
      unsigned level = 0;
      for (Value operand : op.getOperands())
        level = std::max(level, needs.lookup(operand));
      auto reduce = dyn_cast<nn::ReduceOp>(op);
      if (reduce && reducesRows(reduce) && nn::elements(reduce.getResult()) == form.rows &&
          nn::elements(reduce.getInput()) == form.rows * form.columns) {
        form.level[&op] = level++;
        form.levels = std::max(form.levels, level);
      } else if (reduce && isSum(reduce.getResult(), rows, columns) &&
                 llvm::is_contained(yield->getOperands(), reduce.getResult())) {
        form.sums.push_back({reduce, level});
        form.sumParts = columnSumOf(reduce.getResult())->outer;
      } else if (reduce) {
        form.loops = true;
      }
      for (Value result : op.getResults())
        needs[result] = level;
    }
    form.rowSizes = {form.rows};
    initialStages(form);
    return form;
  }

  /// Chooses a form of a kernel without reductions over rows: the outputs with the fewest elements
  /// have one per row.
  FailureOr<RowForm> formOfOutputs() const {
    RowForm form;
    form.loops = !block.getOps<nn::ReduceOp>().empty();
    int64_t least = INT64_MAX, most = 0;
    for (Value output : yield->getOperands()) {
      least = std::min(least, nn::elements(output));
      most = std::max(most, nn::elements(output));
    }
    form.columns = most;
    form.flat = least == most;
    form.rowOutputs = !form.flat;
    if (!form.flat && least > 0 && most % least == 0) {
      form.rows = least;
      form.columns = most / least;
      form.rowSizes = {form.rows};
      initialStages(form);
    }
    for (Value output : yield->getOperands())
      if (nn::elements(output) != most &&
          (least == 0 || most % least != 0 || nn::elements(output) != least))
        return yield->emitOpError() << "outputs of " << nn::elements(output) << " and " << most
                                    << " elements have no common rows";
    return form;
  }

  Block &block;
  Operation *yield;
  bool columnSums;
};

} // namespace

FailureOr<RowForm> shale::chooseRowForm(Region &body, bool columnSums) {
  return Chooser(body, columnSums).run();
}

bool shale::refine(RowForm &form, const Refinement &asked, unsigned stage, unsigned box) {
  if (asked.kind == Refinement::Unsupported)
    return false;
  if (asked.kind == Refinement::Scalar) {
    bool first = !form.scalar;
    form.scalar = true;
    return first;
  }
  if (form.flat) {
    form.flat = false;
    if (asked.kind == Refinement::Split) {
      form.rows = form.columns / asked.at;
      form.columns = asked.at;
    } else {
      form.rows = 1;
    }
    form.rowSizes = {form.rows};
    initialStages(form);
    if (asked.kind == Refinement::Split)
      return true;
    return refine(form, {asked.kind, DimOrigin::Column, 0, asked.at}, 0, 0);
  }
  if (asked.origin == DimOrigin::Row) {
    if (asked.kind != Refinement::Split)
      return false;
    int64_t size = form.rowSizes[asked.position];
    form.rowSizes[asked.position] = size / asked.at;
    form.rowSizes.insert(form.rowSizes.begin() + asked.position + 1, asked.at);
    return true;
  }
  SmallVector<Box> &boxes = form.stages[stage];
  Box::Loop &loop = boxes[box].loops[asked.position];
  if (asked.kind == Refinement::Break) {
    Box after = boxes[box];
    after.start += asked.at * loop.stride;
    after.loops[asked.position].size = loop.size - asked.at;
    loop.size = asked.at;
    boxes.insert(boxes.begin() + box + 1, after);
    return true;
  }
  // If there are no row reductions and the box has one loop, the outer part becomes rows.
  if (form.levels == 0 && !form.rowOutputs && boxes.size() == 1 && boxes[0].loops.size() == 1) {
    int64_t outer = loop.size / asked.at;
    form.rows *= outer;
    form.rowSizes.push_back(outer);
    form.columns = asked.at;
    initialStages(form);
    return true;
  }
  Box::Loop inner{asked.at, loop.stride};
  loop.size /= asked.at;
  loop.stride *= asked.at;
  boxes[box].loops.insert(boxes[box].loops.begin() + asked.position + 1, inner);
  return true;
}
