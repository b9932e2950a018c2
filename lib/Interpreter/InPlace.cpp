//===- InPlace.cpp - Runs kernels that overwrite their inputs -------------===//
//
// A compiled kernel writes one row after another, with threads in any order, so a
// row must not depend on elements that another row overwrites. To expose such
// dependences, a pseudo-random half of the rows is written before the other half is
// read. In a kernel without row reductions every element is a row. If rows are
// reduced, a row's reductions are complete before it is written; then its elements
// are written in two halves, too. A sum of columns takes each element when the element at its
// place is written.
//
//===----------------------------------------------------------------------===//
#include "lib/Analysis/KernelReads.h"
#include "lib/Interpreter/RtMachine.h"

using namespace mlir;

namespace shale::interp {

/// The results of the ops in a kernel's body.
using OpValues = DenseMap<Operation *, RankValues>;

/// Returns an operand of an op of the body on a rank.
static const Tensor &operandOf(Value operand, int64_t rank, const OpValues &values,
                               const RankValues &arguments) {
  if (auto result = dyn_cast<OpResult>(operand))
    return values.find(result.getOwner())->second[rank][result.getResultNumber()];
  return arguments[rank][cast<BlockArgument>(operand).getArgNumber()];
}

/// Runs a body. Ops in `known` are not evaluated; they keep their values.
static FailureOr<OpValues> runBody(Interpreter &interpreter, Block &body,
                                   const RankValues &arguments, const OpValues &known) {
  OpValues values;
  for (Operation &op : body) {
    if (auto it = known.find(&op); it != known.end()) {
      values[&op] = it->second;
      continue;
    }
    RankValues operands(arguments.size());
    for (auto [rank, own] : llvm::enumerate(operands))
      for (Value operand : op.getOperands())
        own.push_back(operandOf(operand, rank, values, arguments));
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      values[&op] = std::move(operands);
      break;
    }
    auto results = interpreter.runOp(&op, std::move(operands));
    if (failed(results))
      return failure();
    values[&op] = std::move(*results);
  }
  return values;
}

/// Returns a pseudo-random bit for a number.
static bool isEarly(int64_t number, uint64_t seed) {
  uint64_t mixed = (uint64_t(number) + seed) * 0x9e3779b97f4a7c15;
  mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
  return (mixed >> 40) & 1;
}

LogicalResult RtMachine::launchInPlace(rt::LaunchOp op, Block &body) {
  Operation *yield = body.getTerminator();
  std::optional<KernelRows> rows = findKernelRows(body);
  auto isSum = [&](Value result) {
    return rows && llvm::is_contained(rows->sums, result.getDefiningOp());
  };
  int64_t rowCount = rows ? rows->rows : INT64_MAX, most = 0;
  for (auto [output, yielded] : llvm::zip(op.getOutputs(), yield->getOperands())) {
    if (isSum(yielded))
      continue;
    int64_t count = cast<MemRefType>(output.getType()).getNumElements();
    rowCount = std::min(rowCount, count);
    most = std::max(most, count);
  }
  if (rowCount == 0)
    return success();
  OpValues known, summed; // summed: what sums of columns add up
  // Runs the kernel on the current memory and writes the elements of all results for which
  // `picks(row, element)` is true.
  auto pass = [&](auto picks) -> LogicalResult {
    RankValues arguments = memory.readAll(op.getInputs());
    auto values = runBody(interpreter, body, arguments, known);
    if (failed(values))
      return failure();
    for (int64_t rank = 0; rank < ranks; ++rank)
      for (auto [index, output] : llvm::enumerate(op.getOutputs())) {
        Value yielded = yield->getOperand(index);
        Operation *sum = isSum(yielded) ? yielded.getDefiningOp() : nullptr;
        const Tensor &value =
            operandOf(sum ? sum->getOperand(0) : yielded, rank, *values, arguments);
        RankValues &terms = summed[sum];
        terms.resize(ranks);
        if (sum && terms[rank].empty())
          terms[rank].push_back(value);
        Tensor written = sum ? terms[rank].front() : memory.read(rank, output);
        Cell *cells = written.mutableCells();
        const Cell *from = value.cells();
        int64_t size = value.size(), columns = size / rowCount;
        bool isOnly = columns <= 1; // one value per row
        if (columns == 0)           // all are in one row
          columns = std::max<int64_t>(1, size);
        for (int64_t row = 0, i = 0; i < size; ++row)
          for (int64_t end = std::min(size, i + columns); i < end; ++i)
            if (picks(row, isOnly ? -1 : i))
              cells[i] = from[i];
        if (sum)
          terms[rank].front() = written;
        else
          memory.write(rank, output, written);
      }
    if (rows)
      for (Operation *reduction : rows->reductions)
        known[reduction] = (*values)[reduction];
    return success();
  };
  auto finish = [&](LogicalResult passed) -> LogicalResult {
    for (auto [index, output] : llvm::enumerate(op.getOutputs())) {
      Value yielded = yield->getOperand(index);
      if (failed(passed) || !isSum(yielded))
        continue;
      auto sums = interpreter.runOp(yielded.getDefiningOp(), summed[yielded.getDefiningOp()]);
      if (failed(sums))
        return failure();
      for (int64_t rank = 0; rank < ranks; ++rank)
        memory.write(rank, output, (*sums)[rank].front());
    }
    return passed;
  };
  auto early = [](int64_t row) { return isEarly(row, 1); };
  if (failed(pass([&](int64_t row, int64_t) { return early(row); })))
    return failure();
  known.clear();
  if (most == rowCount)
    return finish(pass([&](int64_t row, int64_t) { return !early(row); }));
  // Results with one value per row (element -1) are written last.
  auto first = [](int64_t element) { return element >= 0 && isEarly(element, 2); };
  if (failed(pass([&](int64_t row, int64_t element) { return !early(row) && first(element); })))
    return failure();
  return finish(pass([&](int64_t row, int64_t element) { return !early(row) && !first(element); }));
}

} // namespace shale::interp
