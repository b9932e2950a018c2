//===- Reduce.h - Reductions and running sums -----------------------------===//
#ifndef SHALE_NN_OPS_REDUCE_H
#define SHALE_NN_OPS_REDUCE_H

#include "dialects/nn/NN.h"
#include <optional>

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Reduce.h.inc"

namespace shale::nn {

/// The sizes of a reduction of columns: from [outer, each, inner] to [outer, inner].
struct ColumnReduction {
  int64_t outer = 1, each = 1, inner = 1;
};

/// Returns the sizes if the op reduces adjacent dimensions and leaves at least one behind them.
std::optional<ColumnReduction> matchColumns(ReduceOp op);

/// Adds the ops of Reduce.td to the dialect.
void registerReduceOps(NNDialect &dialect);
} // namespace shale::nn

#endif // SHALE_NN_OPS_REDUCE_H
