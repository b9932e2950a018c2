//===- Runs.cpp - Elements of a group that are updated alike --------------===//
#include "dialects/nn/Optimizers/Runs.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

SmallVector<UpdateRun> shale::nn::runsOf(OptimizerUpdateOpInterface update) {
  auto rounded = cast<RoundedUpdateOpInterface>(update.getOperation());
  bool numbers = rounded.isRoundedStochastically();
  SmallVector<UpdateRun> runs;
  for (auto [i, segment] :
       llvm::enumerate(update.getGroupSegments().getAsRange<UpdateRangeAttr>())) {
    int64_t begin = segment.getOffset(), end = begin + segment.getCount();
    UpdateFactors factors = UpdateFactors::of(segment.getFactors());
    int64_t shift = numbers ? rounded.getRoundedNumber(i) - begin : 0;
    if (!runs.empty() && runs.back().end == begin && runs.back().factors == factors &&
        runs.back().shift == shift)
      runs.back().end = end;
    else
      runs.push_back({begin, end, factors, shift});
  }
  return runs;
}

DenseElementsAttr shale::nn::factorTable(Builder &b, ArrayRef<UpdateRun> runs,
                                         UpdateFactor factor) {
  SmallVector<float> values;
  for (const UpdateRun &run : runs)
    values.push_back(run.factors[factor]);
  if (llvm::all_of(values, [](float value) { return value == 1; }))
    return {};
  auto type = RankedTensorType::get({int64_t(values.size())}, b.getF32Type());
  return DenseElementsAttr::get(type, ArrayRef(values));
}

SmallVector<Value> shale::nn::emitScaled(OpBuilder &b, Location loc,
                                         OptimizerUpdateOpInterface update, ArrayRef<Value> scalars,
                                         const FactorValues &factors) {
  SmallVector<Value> values(scalars);
  for (unsigned number : update.getHyperNumbers())
    if (std::optional<unsigned> factor = update.getFactorOn(number); factor && factors[*factor])
      values[number] = arith::MulFOp::create(b, loc, scalars[number], factors[*factor]);
  return values;
}
