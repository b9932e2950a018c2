//===- GpuSchedule.h - How rows and columns map to blocks and threads -----===//
#ifndef SHALE_TARGET_CUDA_GPUSCHEDULE_H
#define SHALE_TARGET_CUDA_GPUSCHEDULE_H

#include "dialects/nn/Ops/Reduce.h"
#include "lib/Codegen/RowForm.h"

namespace shale::cuda {

/// The launch of a kernel, and what one thread does.
///
/// Rows: `rowThreads` threads share a row, `rowsPerBlock` rows share a block. A thread takes
/// chunks of `width` neighbouring columns, `rowThreads` chunks apart. If `chunks` is positive, a
/// thread takes at most that many chunks, unrolled, so that a row that several stages read stays in
/// registers; 0: a loop over the row for each stage. If `sumRows` is positive, a block takes that
/// many neighbouring rows, `rowsPerBlock` at a time, and sums columns over them: a thread adds up
/// its columns of its rows in order, then those of the block's threads meet in shared memory.
/// Columns: reductions from [outer, each, inner] to [outer, inner]. A block takes a strip of
/// `strip` neighbouring columns of one [each, inner]. A thread takes `width` neighbours of every
/// n-th row, where `threads / (strip / width)` = n. The sums of a column's threads meet in shared
/// memory. Flat: a thread takes `chunks` chunks of `width` neighbouring elements, a block's threads
/// apart. If `parts` is above 1, the elements are a sequence of groups of `parts` parts of `part`
/// elements each. A thread takes the chunk at the same place of each part of a group, for `chunks /
/// parts` places, and of outputs that have an element for each place. If it `transposes`, a block
/// takes a tile of a matrix (TransposeForm).
struct GpuSchedule {
  int64_t blocks = 1;
  int64_t threads = 32; ///< per block
  int64_t rowThreads = 32, rowsPerBlock = 1;
  int64_t sumRows = 0; ///< positive if and only if the form has sums of columns
  int64_t width = 1, chunks = 1;
  int64_t parts = 1, part = 0;
  int64_t strip = 0; ///< positive if and only if the kernel reduces columns
  int64_t outer = 1, each = 1, inner = 1;
  bool transposes = false;
};

/// Chooses the form of a kernel. If it joins parts at one place, and its other results have an
/// element for each place, the form is flat: that of the joined elements. Fails after an error.
mlir::FailureOr<RowForm> chooseForm(mlir::Region &body);

/// Chooses the schedule of a kernel from its form and the types and sizes of its inputs and
/// outputs. The order of a sum over columns, or over a row of at most 16384 elements, depends on
/// their numbers only, and not on what else the kernel reads and stores: a recomputed value has the
/// same bits. Other choices depend on shapes and types. The rules are measurements on an H200:
/// docs/measurements/h200.md, section B; chunks of 4 elements of 16 bits were not measured.
GpuSchedule chooseSchedule(const RowForm &form, mlir::Region &body);

/// A sum over a row of zeros and one element: that of column `column`, if there is one.
struct Pick {
  mlir::Value column; ///< one integer per row
  mlir::Value from;   ///< the row
};

/// Matches the sum over each row of select(iota == broadcast of column, from, 0), of floats.
std::optional<Pick> matchPick(nn::ReduceOp op, const RowForm &form);

/// Returns the sum over each row of exp(x - max), where `op` computes max, the maximum of x over
/// the row; null if there is none.
nn::ReduceOp sumOfPowers(nn::ReduceOp op, const RowForm &form);

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_GPUSCHEDULE_H
