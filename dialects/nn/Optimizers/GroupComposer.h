//===- GroupComposer.h - Short names for building updates of groups -------===//
#ifndef SHALE_NN_OPTIMIZERS_GROUPCOMPOSER_H
#define SHALE_NN_OPTIMIZERS_GROUPCOMPOSER_H

#include "dialects/nn/Decompose/Composer.h"
#include "dialects/nn/Ops/Optimizer.h"
#include "dialects/nn/Ops/Segments.h"
#include "dialects/nn/UpdateFactors.h"

namespace shale::nn {

/// Builds ops on a flat group, or this rank's slice of it, and on values by parameter.
class GroupComposer : public Composer {
public:
  GroupComposer(mlir::OpBuilder &b, OptimizerUpdateOpInterface update, const GroupUpdate &group)
      : Composer(b, update), b(b), update(update), group(group) {
    for (const GroupUpdate::Segment &segment : group.segments)
      addRange(ranges, segment.offset, segment.shape, segment.stateOffset);
  }

  /// The means of squares by parameter, of the elements that this rank has.
  mlir::Value squares(mlir::Value x) {
    return SegmentMeansOp::create(b, group.loc, each(x), x, true, false, group.offset, table());
  }
  /// The means of squares by row and column, in the form of `like`.
  mlir::Value factorSquares(mlir::Value x, mlir::Value like) {
    return SegmentMeansOp::create(b, group.loc, like.getType(), x, true, true, group.offset,
                                  table());
  }
  /// Values by parameter, repeated over the elements of `like`.
  mlir::Value spread(mlir::Value values, mlir::Value like) {
    return repeat(values, like, false, false);
  }
  mlir::Value alongRows(mlir::Value values, mlir::Value like) {
    return repeat(values, like, true, false);
  }
  mlir::Value alongColumns(mlir::Value values, mlir::Value like) {
    return repeat(values, like, false, true);
  }
  /// A scalar of the formula, multiplied by its factor of each parameter, in the shape of `like`,
  /// which is the group or has a value per parameter.
  mlir::Value scaled(mlir::OpOperand &operand, mlir::Value like) {
    unsigned number = operand.getOperandNumber();
    mlir::Value value = scalar(group.operands[number], like);
    std::optional<unsigned> factor = update.getFactorOn(number);
    if (!factor)
      return value;
    llvm::SmallVector<float> numbers;
    for (const GroupUpdate::Segment &segment : group.segments)
      numbers.push_back(UpdateFactors::of(segment.factors)[UpdateFactor(*factor)]);
    if (llvm::all_of(numbers, [](float each) { return each == 1; }))
      return value;
    if (llvm::all_equal(numbers))
      return mul(value, splat(like, numbers.front()));
    mlir::RankedTensorType type = each(like);
    mlir::Value made = constant(mlir::DenseElementsAttr::get(type, llvm::ArrayRef(numbers)));
    return mul(value, like.getType() == type ? made : spread(made, like));
  }
  /// Whether an element is one of a parameter, and no padding.
  mlir::Value inside(mlir::Value like) {
    return compare(Predicate::GT, spread(splat(each(like), 1), like), splat(like, 0));
  }
  /// The new parameters of an update that rounds them stochastically, from their values in f32.
  mlir::Value assign(mlir::Value param, mlir::Value next, mlir::Value enable, mlir::Value scale) {
    return AssignOp::create(b, group.loc, param, next, enable, splat(scale, 1),
                            /*rounding=*/mlir::ValueRange(), group.offset,
                            /*factors=*/UpdateFactorsAttr(), /*numbers=*/mlir::DenseI64ArrayAttr(),
                            updateRanges(b, group));
  }
  /// Divides the rows of factored moments by the mean of the rows of their matrix, at least
  /// `least`.
  mlir::Value normalizeRows(mlir::Value moment, mlir::Value least) {
    llvm::SmallVector<mlir::Attribute> matrices; // whose rows are the rows of all matrices
    int64_t size = 0;
    for (const GroupUpdate::Segment &segment : group.segments)
      if (Factors shape = Factors::of(segment.shape); shape.isMatrix()) {
        addRange(matrices, segment.stateOffset, {shape.matrices, shape.rows}, size);
        size += shape.matrices + shape.rows;
      }
    if (matrices.empty())
      return moment;
    mlir::ArrayAttr rows = b.getArrayAttr(matrices);
    mlir::RankedTensorType all = type(moment);
    auto repeat = [&](mlir::Value values, bool byRow) -> mlir::Value {
      return SegmentBroadcastOp::create(b, group.loc, all, values, byRow, false, mlir::Value(),
                                        rows);
    };
    mlir::Value means = SegmentMeansOp::create(b, group.loc, all.clone({size}), moment, false, true,
                                               mlir::Value(), rows);
    mlir::Value isRow =
        compare(Predicate::GT, repeat(splat(all.clone({int64_t(matrices.size())}), 1), false),
                splat(all, 0));
    mlir::Value mean = max(repeat(means, true), scalar(least, moment));
    return div(moment, select(isRow, mean, splat(all, 1)));
  }

private:
  mlir::RankedTensorType each(mlir::Value like) {
    return type(like).clone({int64_t(group.segments.size())});
  }
  mlir::ArrayAttr table() { return b.getArrayAttr(ranges); }
  void addRange(llvm::SmallVectorImpl<mlir::Attribute> &to, int64_t offset,
                llvm::ArrayRef<int64_t> shape, int64_t at) {
    to.push_back(FactoredRangeAttr::get(b.getContext(), offset, shape, at));
  }
  mlir::Value repeat(mlir::Value values, mlir::Value like, bool rows, bool columns) {
    return SegmentBroadcastOp::create(b, group.loc, like.getType(), values, rows, columns,
                                      group.offset, table());
  }

  mlir::OpBuilder &b;
  OptimizerUpdateOpInterface update;
  const GroupUpdate &group;
  llvm::SmallVector<mlir::Attribute> ranges;
};

} // namespace shale::nn

#endif // SHALE_NN_OPTIMIZERS_GROUPCOMPOSER_H
