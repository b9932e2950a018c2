//===- Matmul.cpp - Matrix products ---------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Multiplies as numpy's matmul does. Returns null after an error.
static Value multiplied(Node &node, Value lhs, Value rhs) {
  auto left = Node::type(lhs), right = Node::type(rhs);
  if (left.getRank() == 0 || right.getRank() == 0)
    return node.error("cannot multiply scalars");
  bool isRow = left.getRank() == 1, isColumn = right.getRank() == 1;
  if (isRow)
    lhs = node.reshape(lhs, {1, left.getDimSize(0)});
  if (isColumn)
    rhs = node.reshape(rhs, {right.getDimSize(0), 1});
  if (!lhs || !rhs)
    return {};
  left = Node::type(lhs);
  right = Node::type(rhs);
  if (left.getShape().back() != right.getDimSize(right.getRank() - 2))
    return node.error("matrices {} and {} do not multiply", left, right);
  SmallVector<int64_t> shape;
  Value result;
  if (right.getRank() == 2) {
    // A product with a weight has no batch dimensions.
    shape.assign(left.getShape().begin(), left.getShape().end());
    int64_t k = shape.back(), rows = 1;
    for (int64_t size : ArrayRef<int64_t>(shape).drop_back())
      rows *= size;
    shape.back() = right.getDimSize(1);
    result = node.reshape(node.matmul(node.reshape(lhs, {rows, k}), rhs), shape);
  } else {
    auto batchOf = [](RankedTensorType type) {
      return SmallVector<int64_t>(type.getShape().drop_back(2));
    };
    SmallVector<int64_t> batch, l = batchOf(left), r = batchOf(right);
    while (l.size() < r.size())
      l.insert(l.begin(), 1);
    while (r.size() < l.size())
      r.insert(r.begin(), 1);
    for (auto [a, b] : llvm::zip(l, r)) {
      if (a != b && a != 1 && b != 1)
        return node.error("batch dimensions {} and {} do not broadcast", a, b);
      batch.push_back(a == 1 ? b : a);
    }
    auto widen = [&](Value value) {
      SmallVector<int64_t> wide(batch);
      llvm::append_range(wide, Node::type(value).getShape().take_back(2));
      return node.broadcast(value, wide);
    };
    result = node.matmul(widen(lhs), widen(rhs));
    shape = batch;
    shape.append({left.getDimSize(left.getRank() - 2), right.getShape().back()});
  }
  if (isColumn)
    shape.pop_back();
  if (isRow)
    shape.erase(shape.end() - (isColumn ? 1 : 2));
  return node.reshape(result, shape);
}

static Value importMatmul(Node &node) {
  Value left = node.input(0);
  if (double ratio = node.building.lostDropoutOf(node.proto).value_or(0); ratio != 0)
    left = dropped(node, left, ratio);
  return left ? multiplied(node, left, node.input(1)) : Value();
}

/// FusedMatMul of com.microsoft: a product with a factor. The last two dimensions of an operand, or
/// its first one and the batch, may be transposed.
static Value importFusedMatmul(Node &node) {
  Value operands[2];
  for (int i : {0, 1}) {
    int64_t rank = Node::type(node.input(i)).getRank();
    bool batch = node.flagAttr(i ? "transBatchB" : "transBatchA", false);
    bool matrix = node.flagAttr(i ? "transB" : "transA", false);
    Sizes perm = allDims(rank);
    if (batch && rank > 2)
      std::rotate(perm.begin(), perm.begin() + 1, perm.end() - 1);
    if (matrix && rank > 1)
      std::swap(perm[rank - 1], perm[rank - 2]);
    operands[i] = node.transpose(node.input(i), perm);
    if (!operands[i])
      return {};
  }
  double alpha = node.floatAttr("alpha", 1);
  return scaled(node, multiplied(node, operands[0], operands[1]), alpha);
}

static Value importGemm(Node &node) {
  if (Node::type(node.input(0)).getRank() != 2 || Node::type(node.input(1)).getRank() != 2)
    return node.error("operands must be matrices");
  Value product = node.matmul(node.input(0), node.input(1), node.flagAttr("transA", false),
                              node.flagAttr("transB", false));
  product = scaled(node, product, node.floatAttr("alpha", 1));
  if (!product || !node.has(2))
    return product;
  Value sum = node.add(product, scaled(node, node.input(2), node.floatAttr("beta", 1)));
  return !sum || sum.getType() == product.getType()
             ? sum
             : node.error("operand 2 is larger than the product");
}

void onnx::registerMatmulOps(HandlerRegistry &r) {
  r.add("", "MatMul", 1, importMatmul, needs(2));
  r.add("", "Gemm", 7, importGemm, needs(2));
  r.add("com.microsoft", "FusedMatMul", 1, importFusedMatmul, needs(2));
  r.add("com.microsoft", "TransposeMatMul", 1, importFusedMatmul, needs(2));
}
