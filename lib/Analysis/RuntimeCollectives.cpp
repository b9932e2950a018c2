//===- RuntimeCollectives.cpp - Collectives that the runtime executes -----===//
#include "lib/Analysis/RuntimeCollectives.h"
#include "dialects/dist/Dist.h"

using namespace mlir;
using namespace shale;

std::string shale::findMissingCollective(CollectiveOpInterface op) {
  auto along = [](int64_t dim) { return " along dimension " + std::to_string(dim); };
  Operation *collective = op;
  if (auto gather = dyn_cast<dist::AllGatherOp>(collective); gather && gather.getDim() != 0)
    return "all-gather" + along(gather.getDim());
  if (auto scatter = dyn_cast<dist::ReduceScatterOp>(collective)) {
    if (scatter.getDim() != 0)
      return "reduce-scatter" + along(scatter.getDim());
    if (scatter.getReduction() != dist::Reduction::Sum)
      return "reduce-scatter but of sums";
  }
  if (auto reduce = dyn_cast<dist::AllReduceOp>(collective);
      reduce && reduce.getReduction() != dist::Reduction::Sum)
    return "all-reduce but of sums";
  auto exchange = dyn_cast<dist::AllToAllOp>(collective);
  bool rows = exchange && exchange.getSplit() == 0 && exchange.getConcat() == 1 &&
              cast<RankedTensorType>(exchange.getType()).getDimSize(0) == 1;
  return exchange && !rows ? "all-to-all but of one row for each rank" : "";
}
