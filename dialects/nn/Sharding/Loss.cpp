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
  auto v = rule.contiguous(rule.dim(shapeOf(getLogits())[1], FactorKind::Internal));
  return rule.operand({n, v}).operand({n}).result({}).result({}).result({n}).take();
}

ShardingRule CrossEntropyGradOp::getShardingRule() {
  RuleBuilder rule;
  auto n = rule.dim(shapeOf(getLogits())[0]);
  auto v = rule.contiguous(rule.dim(shapeOf(getLogits())[1]));
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
/// Stands for the logits of columns that are no classes. A slice may have no class at all, and the
/// maximum of its row must be finite.
static constexpr double kAbsent = -std::numeric_limits<float>::max();

namespace {
/// Builds the values that both local forms over a split vocabulary need, row by row.
struct VocabularySlice {
  VocabularySlice(OpBuilder &b, Location loc, ArrayRef<SplitAxis> axes, Value logits, Value labels,
                  int64_t ignore, std::optional<int64_t> classes)
      : b(b), loc(loc), axes(axes), logits(logits), labels(labels), rows(tensorOf(labels)),
        size(shapeOf(logits)[1]) {
    offset = pieceOffset(b, loc, axes, size, rows);
    shifted = SubOp::create(b, loc, labels, offset);
    counted = countedRows(b, loc, labels, ignore);
    inside = AndOp::create(b, loc, compare(Predicate::GE, shifted, 0),
                           compare(Predicate::LT, shifted, size));
    if (classes) {
      inside = AndOp::create(b, loc, inside, compare(Predicate::LT, labels, *classes));
      limit = SubOp::create(b, loc, splat(b, loc, rows, *classes), offset);
    }
  }

  Value compare(Predicate predicate, Value lhs, double rhs) {
    return CompareOp::create(b, loc, RankedTensorType::get(rows.getShape(), b.getI1Type()),
                             predicate, lhs, splat(b, loc, rows, rhs));
  }
  Value select(Value condition, Value then, double otherwise) {
    return SelectOp::create(b, loc, condition, then, splat(b, loc, tensorOf(then), otherwise));
  }
  /// The label of each row: shifted, kElsewhere or kIgnored.
  Value localLabels() {
    Value local = select(inside, shifted, kElsewhere);
    return select(counted, local, kIgnored);
  }
  /// True for the rows that this rank adds to the loss: its labels. The first rank also adds the
  /// rows whose label is no class.
  Value ownRows(int64_t classes) {
    Value none = OrOp::create(b, loc, compare(Predicate::LT, labels, 0),
                              compare(Predicate::GE, labels, classes));
    Value first = AndOp::create(b, loc, none, compare(Predicate::EQ, offset, 0));
    return AndOp::create(b, loc, counted, OrOp::create(b, loc, inside, first));
  }

  /// Repeats one value per row along the vocabulary.
  Value alongRow(Value rows) {
    auto type = RankedTensorType::get(shapeOf(logits), tensorOf(rows).getElementType());
    return BroadcastOp::create(b, loc, type, rows, b.getDenseI64ArrayAttr({0}));
  }
  /// Replaces the elements of a matrix in columns that are no classes.
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
  Value logits, labels;
  RankedTensorType rows; ///< type of the labels
  int64_t size;          ///< columns of the slice
  Value offset, shifted, counted, inside;
  Value limit; ///< by row: how many of the columns are classes; null if all are
};
} // namespace

/// Builds log(sum over ranks of exp(lse)), row by row.
static Value lseOverRanks(OpBuilder &b, Location loc, ArrayRef<SplitAxis> axes, Value lse) {
  RankedTensorType rows = tensorOf(lse);
  for (const SplitAxis &axis : axes) {
    Value parts = gatherPieces(b, loc, axis, lse);
    auto reduce = [&](ReduceKind kind, Value value) -> Value {
      return ReduceOp::create(b, loc, rows, kind, value, b.getDenseI64ArrayAttr({0}));
    };
    Value max = reduce(ReduceKind::Max, parts);
    Value repeated = BroadcastOp::create(b, loc, tensorOf(parts), max, b.getDenseI64ArrayAttr({1}));
    Value sum =
        reduce(ReduceKind::Sum, ExpOp::create(b, loc, SubOp::create(b, loc, parts, repeated)));
    lse = AddOp::create(b, loc, max, LogOp::create(b, loc, sum));
  }
  return lse;
}

static ArrayRef<SplitAxis> vocabularyAxes(const ShardingRule &rule, const LocalForm &local) {
  auto factors = rule.operands[0][1];
  return factors.empty() ? ArrayRef<SplitAxis>() : local.axes[factors[0]];
}

/// Each rank computes the loss of the rows whose label is in its slice as if there were no other
/// classes, and adds what the others' classes add to the row's lse. No term is negative, so that
/// nothing cancels. Ranks exchange one number per row.
FailureOr<SmallVector<Value>> CrossEntropyOp::partition(OpBuilder &builder,
                                                        const LocalForm &local) {
  Location loc = getLoc();
  ShardingRule rule = getShardingRule();
  ArrayRef<SplitAxis> axes = vocabularyAxes(rule, local);
  if (axes.empty()) {
    NamedAttrList attrs;
    attrs.set(getIgnoreIndexAttrName(), getIgnoreIndexAttr());
    if (getClassesAttr())
      attrs.set(getClassesAttrName(), getClassesAttr());
    auto op = CrossEntropyOp::create(builder, loc, local.types, local.operands, attrs);
    return SmallVector<Value>(op->getResults());
  }
  auto scalar = cast<RankedTensorType>(local.types[0]);
  auto rows = cast<RankedTensorType>(local.types[2]);
  Value logits = local.operands[0], labels = local.operands[1];
  // The results are f32, for 16-bit logits too.
  if (getClasses() && tensorOf(logits).getElementType() != rows.getElementType())
    logits = CastOp::create(builder, loc, tensorOf(logits).clone(rows.getElementType()), logits);
  VocabularySlice slice(builder, loc, axes, logits, labels, getIgnoreIndex(), getClasses());
  Value own = slice.ownRows(getClasses().value_or(shapeOf(getLogits())[1]));
  Value ownLabels = slice.select(own, slice.localLabels(), kIgnored);
  auto part = CrossEntropyOp::create(builder, loc, scalar, scalar, rows,
                                     slice.orElse(logits, kAbsent), ownLabels, kIgnored,
                                     /*classes=*/IntegerAttr());
  Value lse = lseOverRanks(builder, loc, axes, part.getLse());
  auto total = [&](Value value) -> Value {
    return ReduceOp::create(builder, loc, scalar, ReduceKind::Sum, value,
                            builder.getDenseI64ArrayAttr({0}));
  };
  Value others = total(slice.select(own, SubOp::create(builder, loc, lse, part.getLse()), 0));
  Value loss = AddOp::create(builder, loc, part.getLossSum(), others);
  for (const SplitAxis &axis : axes)
    loss = dist::AllReduceOp::create(builder, loc, dist::Reduction::Sum, loss, axis.name);
  Value counted = slice.select(slice.counted, splat(builder, loc, rows, 1), 0);
  return SmallVector<Value>{loss, total(counted), lse};
}

/// Each slice of a row needs the whole row's lse, which the forward pass has reduced.
FailureOr<SmallVector<Value>> CrossEntropyGradOp::partition(OpBuilder &builder,
                                                            const LocalForm &local) {
  ArrayRef<SplitAxis> axes = vocabularyAxes(getShardingRule(), local);
  Value logits = local.operands[0], labels = local.operands[1];
  IntegerAttr ignore = getIgnoreIndexAttr(), classes = getClassesAttr();
  if (!axes.empty()) {
    VocabularySlice slice(builder, getLoc(), axes, logits, labels, getIgnoreIndex(), getClasses());
    labels = slice.localLabels();
    logits = slice.orElse(logits, -std::numeric_limits<double>::infinity());
    ignore = builder.getI64IntegerAttr(kIgnored);
    classes = IntegerAttr(); // columns of minus infinity are none
  }
  return SmallVector<Value>{CrossEntropyGradOp::create(builder, getLoc(), local.types[0], logits,
                                                       labels, local.operands[2], local.operands[3],
                                                       ignore, classes)};
}
