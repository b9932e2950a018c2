//===- Random.cpp - Random numbers of a slice ------------------------------===//
#include "dialects/nn/Ops/Random.h"
#include "dialects/nn/Sharding/Rules.h"

using namespace mlir;
using namespace shale;
using namespace shale::nn;

ShardingRule DropoutOp::getShardingRule() {
  RuleBuilder rule;
  TensorFactors dims = rule.dims(shapeOf(getInput()));
  rule.operand(dims);
  for (unsigned i = 1; i < getNumOperands(); ++i)
    rule.operand({});
  return rule.result(dims).linear({0}, true).take();
}

ShardingRule UniformOp::getShardingRule() {
  RuleBuilder rule;
  for (unsigned i = 0; i < getNumOperands(); ++i)
    rule.operand({});
  return rule.result(rule.dims(shapeOf(getResult()))).take();
}

/// Returns the number of a slice's first element in the whole; null if that is 0.
template <typename OpT> static Value offsetOf(OpT op, OpBuilder &builder, const LocalForm &local) {
  auto type = cast<RankedTensorType>(local.types[0]);
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value offset;
  int64_t stride = 1;
  ShardingRule rule = op.getShardingRule();
  for (int64_t d = type.getRank() - 1; d >= 0; --d) {
    for (int64_t factor : rule.results[0][d]) {
      if (local.axes[factor].empty())
        continue;
      Value begin = pieceOffset(builder, op.getLoc(), local.axes[factor],
                                type.getDimSize(d) * stride, scalar);
      offset = addOffset(builder, op.getLoc(), offset, begin);
    }
    stride *= shapeOf(op.getResult())[d];
  }
  return offset;
}

namespace {
/// The shapes of a slice and of the whole, with the pieces of a rank as a dimension of their own.
struct Numbered {
  SmallVector<int64_t> slice, whole;
};
} // namespace

/// A dimension of which a rank has pieces becomes two: the pieces, and the elements of each.
template <typename OpT> static Numbered numbered(OpT op, const LocalForm &local) {
  Numbered shapes;
  ShardingRule rule = op.getShardingRule();
  for (auto [d, size] : llvm::enumerate(shapeOf(op.getResult()))) {
    ArrayRef<int64_t> factors = rule.results[0][d];
    int64_t left = size;
    for (const PieceDim &dim :
         pieceDims(factors.empty() ? ArrayRef<SplitAxis>() : local.axes[factors[0]], size)) {
      if (!dim.axis.empty())
        continue;
      shapes.slice.push_back(dim.size);
      shapes.whole.push_back(left / dim.stride);
      left = dim.stride;
    }
  }
  return shapes;
}

/// A rank draws random numbers for its own elements, by their numbers in the whole.
FailureOr<SmallVector<Value>> DropoutOp::partition(OpBuilder &builder, const LocalForm &local) {
  if (getGlobalShape())
    return emitOpError("is a local form already"), failure();
  Numbered shapes = numbered(*this, local);
  auto type = cast<RankedTensorType>(local.types[0]);
  Value made = DropoutOp::create(builder, getLoc(), type.clone(shapes.slice),
                                 reshape(builder, getLoc(), local.operands[0], shapes.slice),
                                 local.operands[1], local.operands[2], local.operands[3],
                                 offsetOf(*this, builder, local), getRatioAttr(), getIdAttr(),
                                 builder.getDenseI64ArrayAttr(shapes.whole));
  return SmallVector<Value>{reshape(builder, getLoc(), made, type.getShape())};
}

FailureOr<SmallVector<Value>> UniformOp::partition(OpBuilder &builder, const LocalForm &local) {
  if (getGlobalShape())
    return emitOpError("is a local form already"), failure();
  Numbered shapes = numbered(*this, local);
  auto type = cast<RankedTensorType>(local.types[0]);
  Value made =
      UniformOp::create(builder, getLoc(), type.clone(shapes.slice), local.operands[0],
                        local.operands[1], local.operands[2], offsetOf(*this, builder, local),
                        getIdAttr(), builder.getDenseI64ArrayAttr(shapes.whole));
  return SmallVector<Value>{reshape(builder, getLoc(), made, type.getShape())};
}
