//===- GroupSums.cpp - Adds the results of matmuls before other terms -----===//
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/TensorLayout.h"
#include "llvm/ADT/DenseSet.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_GROUPSUMSPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// Groups the terms of sums in a function.
class SumGrouper {
public:
  void run(func::FuncOp function);

private:
  bool isOfMatmuls(Value value) const;
  bool group(nn::AddOp outer);

  llvm::DenseSet<Value> sums; ///< whose terms are all results of matmuls
};

} // namespace

/// Whether a value is the result of a matmul, through casts, transposes and views, or a sum of
/// such results.
bool SumGrouper::isOfMatmuls(Value value) const {
  Value root = rootOf(value);
  Operation *op = root.getDefiningOp();
  return sums.contains(root) || (op && op->getNumResults() == 1 && isMatmul(getRule(op)));
}

/// Makes (x + a) + b, where a and b are of matmuls and x is not, x + (a + b).
bool SumGrouper::group(nn::AddOp outer) {
  for (int64_t place : {0, 1}) {
    auto inner = outer->getOperand(place).getDefiningOp<nn::AddOp>();
    Value last = outer->getOperand(1 - place);
    if (!inner || !inner->hasOneUse() || !isOfMatmuls(last) ||
        nn::phaseOf(inner) != nn::phaseOf(outer))
      continue;
    bool first = isOfMatmuls(inner.getLhs());
    if (first == isOfMatmuls(inner.getRhs()))
      continue;
    Value rest = first ? inner.getRhs() : inner.getLhs();
    OpBuilder b(outer);
    auto sum = cast<nn::AddOp>(b.clone(*outer));
    sum->setOperands({first ? inner.getLhs() : inner.getRhs(), last});
    outer->setOperands({rest, sum.getResult()});
    sums.insert(sum.getResult());
    inner.erase();
    return true;
  }
  return false;
}

void SumGrouper::run(func::FuncOp function) {
  for (Operation &op : llvm::make_early_inc_range(function.getBody().front()))
    if (auto add = dyn_cast<nn::AddOp>(op); add && !group(add))
      if (isOfMatmuls(add.getLhs()) && isOfMatmuls(add.getRhs()))
        sums.insert(add.getResult());
}

namespace {
struct GroupSumsPass : impl::GroupSumsPassBase<GroupSumsPass> {
  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (!mesh || mesh.getRanksThat(dist::splitsValues) == 1)
      return;
    for (auto function : getOperation().getOps<func::FuncOp>())
      SumGrouper().run(function);
  }
};
} // namespace

} // namespace shale
