//===- Loss.cpp - Cross-entropy over split rows and a split vocabulary ----===//
#include "dialects/nn/Ops/Loss.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Reduce.h"
#include "dialects/nn/Sharding/Rules.h"
#include "mlir/IR/Builders.h"
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::nn;

ShardingRule CrossEntropyOp::getShardingRule() {
  RuleBuilder rule;
  auto n = rule.dim(shapeOf(getLogits())[0], FactorKind::Sum);
  auto v = rule.dim(shapeOf(getLogits())[1], FactorKind::Internal);
  return rule.operand({n, v}).operand({n}).result({}).result({}).result({n}).take();
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  RuleBuilder rule;
  auto n = rule.dim(shapeOf(getLogits())[0]);
  auto v = rule.dim(shapeOf(getLogits())[1]);
  return rule.operand({n, v})
      .operand({n})
      .operand({n})
      .operand({})
      .result({n, v})
      .linear({3})
      .take();
}

// Local labels of a vocabulary slice: the label of an ignored row, and that of a
// row whose label is outside the slice. Both are out of every slice, so that a
// shifted label cannot be confused with the ignored one.
static constexpr int64_t kIgnored = -1, kElsewhere = -2;

namespace {
/// Builds the values that both local forms over a split vocabulary need, row by row.
struct VocabularySlice {
  VocabularySlice(OpBuilder &b, Location loc, ArrayRef<SplitAxis> axes, Value logits, Value labels,
                  int64_t ignore, std::optional<int64_t> classes)
      : b(b), loc(loc), axes(axes), logits(logits) {
    RankedTensorType rows = tensorOf(labels);
    int64_t size = shapeOf(logits)[1];
    Value offset = pieceOffset(b, loc, axes, size, rows);
    Value shifted = SubOp::create(b, loc, labels, offset);
    auto compare = [&](Predicate predicate, Value lhs, double rhs) -> Value {
      return CompareOp::create(b, loc, RankedTensorType::get(rows.getShape(), b.getI1Type()),
                               predicate, lhs, splat(b, loc, rows, rhs));
    };
    ignored = compare(Predicate::EQ, labels, ignore);
    inside = AndOp::create(b, loc, compare(Predicate::GE, shifted, 0),
                           compare(Predicate::LT, shifted, size));
    if (classes) {
      inside = AndOp::create(b, loc, inside, compare(Predicate::LT, labels, *classes));
      limit = SubOp::create(b, loc, splat(b, loc, rows, *classes), offset);
    }
    Value local = SelectOp::create(b, loc, inside, shifted, splat(b, loc, rows, kElsewhere));
    this->labels = SelectOp::create(b, loc, ignored, splat(b, loc, rows, kIgnored), local);
  }

  Value allReduce(dist::Reduction kind, Value value) {
    for (const SplitAxis &axis : axes)
      value = dist::AllReduceOp::create(b, loc, kind, value, axis.name);
    return value;
  }
  /// Repeats one value per row along the vocabulary.
  Value alongRow(Value rows) {
    auto type = RankedTensorType::get(shapeOf(logits), tensorOf(rows).getElementType());
    return BroadcastOp::create(b, loc, type, rows, b.getDenseI64ArrayAttr({0}));
  }
  Value reduceRows(ReduceKind kind, Value matrix) {
    auto type = RankedTensorType::get({shapeOf(logits)[0]}, tensorOf(matrix).getElementType());
    return ReduceOp::create(b, loc, type, kind, matrix, b.getDenseI64ArrayAttr({1}));
  }

  /// Replaces the elements of a matrix in columns that are no classes. Each matrix has a condition
  /// of its own: one that two kernels read would be stored.
  Value orElse(Value matrix, double other) {
    if (!limit)
      return matrix;
    RankedTensorType index = tensorOf(matrix).clone(tensorOf(limit).getElementType());
    Value column = IotaOp::create(b, loc, index, b.getI64IntegerAttr(1));
    Value exists = CompareOp::create(b, loc, index.clone(b.getI1Type()), Predicate::LT, column,
                                     alongRow(limit));
    return SelectOp::create(b, loc, exists, matrix, splat(b, loc, tensorOf(matrix), other));
  }

  OpBuilder &b;
  Location loc;
  ArrayRef<SplitAxis> axes;
  Value logits, labels, ignored, inside;
  Value limit; ///< by row: how many of the columns are classes; null if all are
};
} // namespace

static ArrayRef<SplitAxis> vocabularyAxes(const ShardingRule &rule, const LocalForm &local) {
  auto factors = rule.operands[0][1];
  return factors.empty() ? ArrayRef<SplitAxis>() : local.axes[factors[0]];
}

/// The maximum and the sum of exponentials of a row are reduced over the ranks
/// that share it. The logit of its label comes from the rank that holds it.
FailureOr<SmallVector<Value>> CrossEntropyOp::partition(OpBuilder &builder,
                                                        const LocalForm &local) {
  Location loc = getLoc();
  Value logits = local.operands[0], labels = local.operands[1];
  ArrayRef<SplitAxis> axes = vocabularyAxes(getShardingRule(), local);
  if (axes.empty()) {
    NamedAttrList attrs;
    attrs.set(getIgnoreIndexAttrName(), getIgnoreIndexAttr());
    if (getClassesAttr())
      attrs.set(getClassesAttrName(), getClassesAttr());
    auto op = CrossEntropyOp::create(builder, loc, local.types, local.operands, attrs);
    return SmallVector<Value>(op->getResults());
  }
  // The results are f32, for 16-bit logits too.
  Type element = cast<RankedTensorType>(local.types[2]).getElementType();
  if (tensorOf(logits).getElementType() != element)
    logits = CastOp::create(builder, loc, tensorOf(logits).clone(element), logits);
  VocabularySlice slice(builder, loc, axes, logits, labels, getIgnoreIndex(), getClasses());
  // Each reduction masks the padding of the vocabulary itself. If both read the same masked logits,
  // these would be stored and take as much memory as the logits.
  constexpr double lowest = -std::numeric_limits<double>::infinity();
  Value max = slice.allReduce(dist::Reduction::Max,
                              slice.reduceRows(ReduceKind::Max, slice.orElse(logits, lowest)));
  Value exponentials =
      ExpOp::create(builder, loc, SubOp::create(builder, loc, logits, slice.alongRow(max)));
  Value sum = slice.allReduce(dist::Reduction::Sum,
                              slice.reduceRows(ReduceKind::Sum, slice.orElse(exponentials, 0)));
  Value lse = AddOp::create(builder, loc, max, LogOp::create(builder, loc, sum));

  auto matrixOf = [&](Type element) { return RankedTensorType::get(shapeOf(logits), element); };
  Type index = tensorOf(labels).getElementType();
  Value columns = IotaOp::create(builder, loc, matrixOf(index), builder.getI64IntegerAttr(1));
  Value hit = CompareOp::create(builder, loc, matrixOf(builder.getI1Type()), Predicate::EQ, columns,
                                slice.alongRow(slice.labels));
  Value picked =
      SelectOp::create(builder, loc, hit, logits, splat(builder, loc, tensorOf(logits), 0));
  picked = slice.allReduce(dist::Reduction::Sum, slice.reduceRows(ReduceKind::Sum, picked));
  Value zeros = splat(builder, loc, tensorOf(lse), 0);
  Value ones = splat(builder, loc, tensorOf(lse), 1);
  Value rows = SelectOp::create(builder, loc, slice.ignored, zeros,
                                SubOp::create(builder, loc, lse, picked));
  Value counted = SelectOp::create(builder, loc, slice.ignored, zeros, ones);
  auto total = [&](Value value, Type type) -> Value {
    return ReduceOp::create(builder, loc, type, ReduceKind::Sum, value,
                            builder.getDenseI64ArrayAttr({0}));
  };
  return SmallVector<Value>{total(rows, local.types[0]), total(counted, local.types[1]), lse};
}

/// Each slice of a row needs the whole row's lse, which the forward pass has reduced.
FailureOr<SmallVector<Value>> CrossEntropyGradOp::partition(OpBuilder &builder,
                                                            const LocalForm &local) {
  ArrayRef<SplitAxis> axes = vocabularyAxes(getShardingRule(), local);
  Value logits = local.operands[0], labels = local.operands[1];
  IntegerAttr ignore = getIgnoreIndexAttr(), classes = getClassesAttr();
  if (!axes.empty()) {
    VocabularySlice slice(builder, getLoc(), axes, logits, labels, getIgnoreIndex(), getClasses());
    labels = slice.labels;
    logits = slice.orElse(logits, -std::numeric_limits<double>::infinity());
    ignore = builder.getI64IntegerAttr(kIgnored);
    classes = IntegerAttr(); // columns of minus infinity are none
  }
  return SmallVector<Value>{CrossEntropyGradOp::create(builder, getLoc(), local.types[0], logits,
                                                       labels, local.operands[2], local.operands[3],
                                                       ignore, classes)};
}
