//===- Mean.cpp - Losses that are a sum over a count ----------------------===//
#include "passes/autodiff/Mean.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Elementwise.h"
#include <cmath>

using namespace mlir;

namespace shale {

bool isMean(Value loss, Value sum, Value count) {
  auto quotient = loss.getDefiningOp<nn::DivOp>();
  if (!quotient || quotient.getLhs() != sum)
    return false;
  auto atLeastOne = quotient.getRhs().getDefiningOp<nn::MaxOp>();
  auto notZero = quotient.getRhs().getDefiningOp<nn::SelectOp>();
  return quotient.getRhs() == count || (notZero && notZero.getOnTrue() == count) ||
         (atLeastOne && (atLeastOne.getLhs() == count || atLeastOne.getRhs() == count));
}

/// Returns the largest number that an op with a scalar result can count: the size of
/// its integer operands (labels) if it has any, else of its operands. 0 if it reads
/// only scalars.
static int64_t countedElements(Operation *op) {
  int64_t integers = 0, elements = 0;
  for (Value operand : op->getOperands()) {
    auto type = dyn_cast<RankedTensorType>(operand.getType());
    if (!type || type.getRank() == 0)
      continue;
    int64_t &most = isa<IntegerType>(type.getElementType()) ? integers : elements;
    most = std::max(most, type.getNumElements());
  }
  return integers ? integers : elements;
}

double countScale(Value count) {
  double most = 1;
  SmallVector<Value> work{count};
  DenseSet<Operation *> seen;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (!op || !seen.insert(op).second)
      continue;
    auto constant = dyn_cast<nn::ConstantOp>(op);
    auto dense =
        constant ? dyn_cast<DenseFPElementsAttr>(constant.getValue()) : DenseFPElementsAttr();
    if (dense && dense.isSplat())
      most = std::max(most, dense.getSplatValue<APFloat>().convertToDouble());
    else if (int64_t elements = countedElements(op))
      most = std::max<double>(most, elements);
    else
      llvm::append_range(work, op->getOperands());
  }
  return std::isfinite(most) ? std::exp2(std::ceil(std::log2(most))) : 1;
}

} // namespace shale
