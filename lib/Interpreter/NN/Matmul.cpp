//===- Matmul.cpp - Matmuls -----------------------------------------------===//
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "lib/Interpreter/Evaluators.h"
#include "lib/Interpreter/Interpreter.h"
#include "lib/Interpreter/NN/Quantize.h"

using namespace mlir;

namespace shale::interp {

/// Copies a [rows, columns] matrix to [columns, rows].
static void transposeInto(const double *from, int64_t rows, int64_t columns, double *to) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      to[j * rows + i] = from[i * columns + j];
}

/// y[m, n] += a[m, k] b[k, n]; the sum over k runs in order for each element.
static void multiply(const double *a, const double *b, double *y, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kBlock = 64; // rows of b that stay in the cache
  for (int64_t begin = 0; begin < k; begin += kBlock) {
    int64_t end = std::min(k, begin + kBlock);
    for (int64_t i = 0; i < m; ++i) {
      const double *factors = a + i * k;
      double *out = y + i * n;
      int64_t j = begin;
      for (; j + 4 <= end; j += 4) { // four terms per load and store of an element
        const double *r0 = b + j * n, *r1 = r0 + n, *r2 = r1 + n, *r3 = r2 + n;
        double f0 = factors[j], f1 = factors[j + 1], f2 = factors[j + 2], f3 = factors[j + 3];
        for (int64_t c = 0; c < n; ++c)
          out[c] = out[c] + f0 * r0[c] + f1 * r1[c] + f2 * r2[c] + f3 * r3[c];
      }
      for (; j < end; ++j)
        for (int64_t c = 0; c < n; ++c)
          out[c] += factors[j] * b[j * n + c];
    }
  }
}

void addMatmul(const Tensor &lhs, const Tensor &rhs, bool transposeLhs, bool transposeRhs,
               Tensor &result) {
  int64_t rank = result.rank();
  int64_t m = result.dim(rank - 2), n = result.dim(rank - 1);
  int64_t k = lhs.dim(transposeLhs ? rank - 2 : rank - 1);
  int64_t batches = 1;
  for (int64_t d = 0; d < rank - 2; ++d)
    batches *= result.dim(d);
  std::vector<double> left(transposeLhs ? m * k : 0);
  std::vector<double> right(transposeRhs ? k * n : 0);
  double *y = result.mutableFloats();
  for (int64_t batch = 0; batch < batches; ++batch) {
    const double *a = lhs.floats() + batch * m * k;
    const double *b = rhs.floats() + batch * k * n;
    if (transposeLhs) {
      transposeInto(a, k, m, left.data());
      a = left.data();
    }
    if (transposeRhs) {
      transposeInto(b, n, k, right.data());
      b = right.data();
    }
    multiply(a, b, y + batch * m * n, m, n, k);
  }
}

static LogicalResult evaluateMatmul(nn::MatmulOp op, Call &call) {
  Tensor &result = call.result();
  std::fill_n(result.mutableFloats(), result.size(), 0.0);
  Tensor lhs = call.operand(0), rhs = call.operand(1);
  if (op.getQuantizedAttr()) {
    bool asF64 = call.interpreter.options.asF64;
    lhs = quantized(lhs, *elementOf(op.getQuantizedType(0)), asF64);
    rhs = quantized(rhs, *elementOf(op.getQuantizedType(1)), asF64);
  }
  addMatmul(lhs, rhs, op.getTransposeLhs(), op.getTransposeRhs(), result);
  return success();
}

static LogicalResult evaluateMatmulAdd(nn::MatmulAddOp op, Call &call) {
  Tensor &result = call.result();
  std::copy_n(call.operand(0).floats(), result.size(), result.mutableFloats());
  addMatmul(call.operand(1), call.operand(2), op.getTransposeLhs(), op.getTransposeRhs(), result);
  return success();
}

/// Returns the group of each row; -1 for none.
static std::vector<int64_t> groupsOfRows(const Tensor &ends, int64_t rows) {
  std::vector<int64_t> groups(rows, -1);
  for (int64_t group = ends.size() - 1; group >= 0; --group)
    for (int64_t row = 0; row < std::min<int64_t>(rows, ends.number(group)); ++row)
      groups[row] = group; // the first group that ends after the row
  return groups;
}

/// result[row, :] = lhs[row, :] times the matrix with the row's number; zeros for none.
static void multiplyRows(const std::vector<int64_t> &matrices, bool transposed, Call &call) {
  Tensor lhs = call.operand(0), rhs = call.operand(1), &result = call.result();
  int64_t k = lhs.dim(1), n = result.dim(1);
  for (auto [row, matrix] : llvm::enumerate(matrices))
    for (int64_t column = 0; column < n; ++column) {
      double sum = 0;
      for (int64_t i = 0; matrix >= 0 && i < k; ++i)
        sum += lhs.number(row * k + i) *
               rhs.number(matrix * k * n + (transposed ? column * k + i : i * n + column));
      result.setNumber(row * n + column, sum);
    }
}

/// Sums lhs[row, :] * rhs[row, :] into the matrix with the row's number.
static void sumRows(const std::vector<int64_t> &matrices, Call &call) {
  Tensor lhs = call.operand(0), rhs = call.operand(1), &result = call.result();
  int64_t k = lhs.dim(1), n = rhs.dim(1);
  std::fill_n(result.mutableFloats(), result.size(), 0.0);
  for (auto [row, matrix] : llvm::enumerate(matrices))
    for (int64_t i = 0; matrix >= 0 && i < k; ++i)
      for (int64_t column = 0; column < n; ++column)
        result.mutableFloats()[(matrix * k + i) * n + column] +=
            lhs.number(row * k + i) * rhs.number(row * n + column);
}

static LogicalResult evaluateGroupedMatmul(nn::GroupedMatmulOp op, Call &call) {
  multiplyRows(groupsOfRows(call.operand(2), call.operand(0).dim(0)), op.getTransposeRhs(), call);
  return success();
}

static LogicalResult evaluateGroupedMatmulGrad(nn::GroupedMatmulGradOp, Call &call) {
  sumRows(groupsOfRows(call.operand(2), call.operand(0).dim(0)), call);
  return success();
}

/// Returns the expert of each row; -1 for none in the row's part.
static std::vector<int64_t> expertsOfRows(const Tensor &experts, int64_t count, int64_t parts) {
  std::vector<int64_t> result(experts.ints(), experts.ints() + experts.size());
  int64_t rows = result.size() / parts, each = count / parts;
  for (auto [row, expert] : llvm::enumerate(result))
    if (expert < 0 || expert >= count || expert / each != int64_t(row) / rows)
      expert = -1;
  return result;
}

static LogicalResult evaluateExpertMatmul(nn::ExpertMatmulOp op, Call &call) {
  multiplyRows(expertsOfRows(call.operand(2), call.operand(1).dim(0), op.getParts()),
               op.getTransposeRhs(), call);
  return success();
}

static LogicalResult evaluateExpertMatmulGrad(nn::ExpertMatmulGradOp op, Call &call) {
  sumRows(expertsOfRows(call.operand(2), call.result().dim(0), op.getParts()), call);
  return success();
}

void registerMatmul(Registry &registry) {
  registry.add<nn::GroupedMatmulOp>(evaluateGroupedMatmul);
  registry.add<nn::GroupedMatmulGradOp>(evaluateGroupedMatmulGrad);
  registry.add<nn::ExpertMatmulOp>(evaluateExpertMatmul);
  registry.add<nn::ExpertMatmulGradOp>(evaluateExpertMatmulGrad);
  registry.add<nn::MatmulOp>(evaluateMatmul);
  registry.add<nn::MatmulAddOp>(evaluateMatmulAdd);
}

} // namespace shale::interp
