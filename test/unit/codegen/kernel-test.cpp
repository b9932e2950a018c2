//===- kernel-test.cpp - Generated kernels against the interpreter --------===//
#include "KernelRunner.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Philox.h"
#include "lib/Interpreter/Interpreter.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "passes/fusion/Passes.h"
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Tensor;

namespace {

std::string replaceWords(std::string text,
                         const std::vector<std::pair<std::string, std::string>> &words) {
  for (auto &[name, word] : words)
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, name.size(), word);
  return text;
}

std::string replace(std::string text, const std::vector<std::pair<std::string, int64_t>> &sizes) {
  std::vector<std::pair<std::string, std::string>> words;
  for (auto &[name, size] : sizes)
    words.push_back({name, std::to_string(size)});
  return replaceWords(text, words);
}

/// Returns the number of kernels of @f on a GPU, or -1 after a failure.
int kernelsOnGpu(const std::string &text) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  EXPECT_TRUE(module) << text;
  if (!module)
    return -1;
  RunOptions options;
  options.target = "cuda:sm_90a";
  return CompiledKernels(*module, options).count();
}

/// Largest difference relative to the largest magnitude of the tensor.
double difference(const Tensor &x, const Tensor &y) {
  EXPECT_EQ(x.shape(), y.shape());
  double most = 0, scale = 1e-30;
  for (int64_t i = 0; i < x.size(); ++i) {
    scale = std::max(scale, std::abs(y.number(i)));
    double d = std::abs(x.number(i) - y.number(i));
    if (std::isnan(x.number(i)) != std::isnan(y.number(i)))
      return INFINITY;
    if (!std::isnan(d))
      most = std::max(most, d);
  }
  return most / std::max(1.0, scale);
}

void expectSameBits(const std::vector<Tensor> &x, const std::vector<Tensor> &y) {
  ASSERT_EQ(x.size(), y.size());
  for (size_t i = 0; i < x.size(); ++i) {
    std::vector<char> left(x[i].byteSize()), right(y[i].byteSize());
    x[i].toBytes(left.data());
    y[i].toBytes(right.data());
    EXPECT_EQ(left, right) << "result " << i;
  }
}

/// The GPU's kernels, emulated, agree with the interpreter.
void checkEmulated(mlir::ModuleOp module, const std::vector<Tensor> &arguments,
                   const std::vector<Tensor> &expected, double tolerance) {
  RunOptions options;
  options.target = "cuda:sm_90a";
  std::vector<Tensor> found = runNative(module, arguments, options);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_LT(difference(found[i], expected[i]), tolerance) << "result " << i << ", emulated";
}

/// Native and interpreted results agree. Fusion and the cut of rows change no bits.
void check(const std::string &text, double tolerance = 3e-6, int64_t bound = 7) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  ASSERT_TRUE(module) << text;
  std::vector<Tensor> arguments = randomArguments(*module, 1, bound);
  std::vector<Tensor> expected = interpret(*module, arguments);
  CompiledKernels fused(*module, {});
  std::vector<Tensor> whole = fused.run(arguments);
  ASSERT_EQ(whole.size(), expected.size());
  for (size_t i = 0; i < whole.size(); ++i)
    EXPECT_LT(difference(whole[i], expected[i]), tolerance) << "result " << i << " of\n" << text;
  expectSameBits(fused.run(arguments, /*chunk=*/1), whole);
  RunOptions separate;
  separate.singletons = true;
  int single = 0;
  expectSameBits(runNative(*module, arguments, separate, &single), whole);
  EXPECT_LE(fused.count(), single);
  checkEmulated(*module, arguments, expected, tolerance);
}

class Sizes : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Widths, Sizes, testing::Values(1, 7, 16, 17, 80, 257));

// A value that is read in its place and, through an op that moves elements, elsewhere: no result
// may take the place of what it is made of.
TEST_P(Sizes, ReadsElsewhere) {
  check(replace(R"(
func.func @f(%x: tensor<2x5xCxf32>, %m: tensor<Cxf32>) -> (tensor<2x5xCxf32>, tensor<2x5xCxf32>) {
  %0 = nn.tanh %x : tensor<2x5xCxf32>
  %1 = nn.slice %0 starts = [0, 0, 0] limits = [2, 4, C] strides = [1, 1, 1] : tensor<2x5xCxf32> -> tensor<2x4xCxf32>
  %2 = nn.pad %1 low = [0, 1, 0] high = [0, 0, 0] interior = [0, 0, 0] value = 0.0 : tensor<2x4xCxf32> -> tensor<2x5xCxf32>
  %3 = nn.broadcast %m dims = [2] : tensor<Cxf32> -> tensor<2x5xCxf32>
  %4 = nn.mul %2, %3 : tensor<2x5xCxf32>
  %5 = nn.add %0, %4 : tensor<2x5xCxf32>
  %6 = nn.exp %x : tensor<2x5xCxf32>
  %7 = nn.cumsum %6 dim = 1 : tensor<2x5xCxf32>
  %8 = nn.div %7, %6 : tensor<2x5xCxf32>
  return %5, %8 : tensor<2x5xCxf32>, tensor<2x5xCxf32>
})",
                {{"C", GetParam()}}));
}

// A value with one element per row, and one of all columns that a transposition cuts into pieces.
TEST_P(Sizes, RowsAndPieces) {
  check(replace(R"(
func.func @f(%x: tensor<6xf32>, %y: tensor<6xCx3xf32>) -> (tensor<6xf32>, tensor<6x3xCxf32>) {
  %0 = nn.tanh %x : tensor<6xf32>
  %1 = nn.broadcast %0 dims = [0] : tensor<6xf32> -> tensor<6x3xCxf32>
  %2 = nn.transpose %y perm = [0, 2, 1] : tensor<6xCx3xf32> -> tensor<6x3xCxf32>
  %3 = nn.add %1, %2 : tensor<6x3xCxf32>
  return %0, %3 : tensor<6xf32>, tensor<6x3xCxf32>
})",
                {{"C", GetParam()}}));
}

// Functions of the constant that pads: MLIR would fold them with the compiler's libm, which gives
// other bits than the polynomials of kernels.
TEST_P(Sizes, FunctionsOfConstants) {
  check(replace(R"(
func.func @f(%x: tensor<3xCxf32>) -> (tensor<3xDxf32>, tensor<3xDxf32>, tensor<3xDxf32>, tensor<3xDxf32>) {
  %0 = nn.pad %x low = [0, 1] high = [0, 2] interior = [0, 0] value = 0.5 : tensor<3xCxf32> -> tensor<3xDxf32>
  %1 = nn.erf %0 : tensor<3xDxf32>
  %2 = nn.tanh %0 : tensor<3xDxf32>
  %3 = nn.exp %0 : tensor<3xDxf32>
  %4 = nn.gelu %0 : tensor<3xDxf32>
  return %1, %2, %3, %4 : tensor<3xDxf32>, tensor<3xDxf32>, tensor<3xDxf32>, tensor<3xDxf32>
})",
                {{"C", GetParam()}, {"D", GetParam() + 3}}));
}

TEST_P(Sizes, Elementwise) {
  check(replace(R"(
func.func @f(%x: tensor<3xCxf32>, %y: tensor<3xCxf32>, %b: tensor<Cxf32>, %c: tensor<3xCxi1>) -> (tensor<3xCxf32>, tensor<3xCxf32>) {
  %bb = nn.broadcast %b dims = [1] : tensor<Cxf32> -> tensor<3xCxf32>
  %0 = nn.add %x, %bb : tensor<3xCxf32>
  %1 = nn.gelu %0 : tensor<3xCxf32>
  %2 = nn.tanh %1 : tensor<3xCxf32>
  %3 = nn.silu %y : tensor<3xCxf32>
  %4 = nn.select %c, %2, %3 : tensor<3xCxi1>, tensor<3xCxf32>
  %5 = nn.exp %4 : tensor<3xCxf32>
  %6 = nn.gelu %5 tanh : tensor<3xCxf32>
  %7 = nn.erf %y : tensor<3xCxf32>
  %8 = nn.abs %y : tensor<3xCxf32>
  %9 = nn.log %8 : tensor<3xCxf32>
  %10 = nn.add %7, %9 : tensor<3xCxf32>
  return %6, %10 : tensor<3xCxf32>, tensor<3xCxf32>
})",
                {{"C", GetParam()}}));
}

// Each elementwise op with one type for operands and result. (Boolean ops do not parse here.)
TEST_P(Sizes, EveryElementwiseOp) {
  mlir::MLIRContext context;
  prepare(context);
  mlir::ScopedDiagnosticHandler quiet(&context, [](mlir::Diagnostic &) {});
  int ops = 0;
  for (mlir::RegisteredOperationName name : context.getRegisteredOperations()) {
    bool unary = name.hasTrait<mlir::OpTrait::OneOperand>();
    bool binary = name.hasTrait<mlir::OpTrait::NOperands<2>::Impl>();
    if (!name.hasInterface<ElementwiseOpInterface>() || !(unary || binary))
      continue;
    std::string tensor = "tensor<3x" + std::to_string(GetParam()) + "xf32>";
    std::string types = binary ? tensor + ", " + tensor : tensor;
    std::string text = "func.func @f(%x: " + tensor + ", %y: " + tensor + ") -> " + tensor +
                       " {\n  %0 = \"" + name.getStringRef().str() +
                       (binary ? "\"(%x, %y)" : "\"(%x)") + " : (" + types + ") -> " + tensor +
                       "\n  return %0 : " + tensor + "\n}";
    if (!parse(context, text))
      continue;
    check(text);
    ++ops;
  }
  EXPECT_GE(ops, 22);
}

TEST_P(Sizes, Norms) {
  check(replace(R"(
func.func @f(%x: tensor<2x3xCxf32>, %w: tensor<Cxf32>, %b: tensor<Cxf32>, %dy: tensor<2x3xCxf32>, %m: tensor<2x3xf32>, %s: tensor<2x3xf32>)
    -> (tensor<2x3xCxf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xCxf32>, tensor<2x3xCxf32>, tensor<Cxf32>, tensor<Cxf32>, tensor<2x3xCxf32>, tensor<Cxf32>) {
  %y, %mean, %rstd = nn.layer_norm %x, %w, %b epsilon = 1.000000e-05 : tensor<2x3xCxf32>, tensor<Cxf32> -> tensor<2x3xf32>
  %z, %r = nn.rms_norm %x, %w epsilon = 1.000000e-05 : tensor<2x3xCxf32>, tensor<Cxf32> -> tensor<2x3xf32>
  %dx, %dw, %db = nn.layer_norm_grad %x, %w, %m, %s, %dy : tensor<2x3xCxf32>, tensor<Cxf32>, tensor<2x3xf32>
  %ex, %ew = nn.rms_norm_grad %x, %w, %s, %dy : tensor<2x3xCxf32>, tensor<Cxf32>, tensor<2x3xf32>
  return %y, %mean, %r, %z, %dx, %dw, %db, %ex, %ew : tensor<2x3xCxf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x3xCxf32>, tensor<2x3xCxf32>, tensor<Cxf32>, tensor<Cxf32>, tensor<2x3xCxf32>, tensor<Cxf32>
})",
                {{"C", GetParam()}}),
        1e-5);
}

TEST_P(Sizes, SoftmaxAndLoss) {
  check(replace(R"(
func.func @f(%x: tensor<5xCxf32>, %t: tensor<5xi64>, %g: tensor<f32>) -> (tensor<5xCxf32>, tensor<f32>, tensor<f32>, tensor<5xf32>, tensor<5xCxf32>) {
  %p = nn.softmax %x : tensor<5xCxf32>
  %sum, %count, %lse = nn.cross_entropy %x, %t ignore_index = -1 : tensor<5xCxf32>, tensor<5xi64>
  %d = nn.cross_entropy_grad %x, %t, %lse, %g ignore_index = -1 : tensor<5xCxf32>, tensor<5xi64>
  return %p, %sum, %count, %lse, %d : tensor<5xCxf32>, tensor<f32>, tensor<f32>, tensor<5xf32>, tensor<5xCxf32>
})",
                {{"C", GetParam()}}),
        3e-6, GetParam());
}

TEST_P(Sizes, Heads) {
  // The bias of a matmul, cut into q, k and v with heads first, and the inverse.
  check(replace(R"(
func.func @f(%m: tensor<10xWxf32>, %b: tensor<Wxf32>) -> (tensor<2x3x5xCxf32>, tensor<2x3x5xCxf32>, tensor<10xWxf32>) {
  %bb = nn.broadcast %b dims = [1] : tensor<Wxf32> -> tensor<10xWxf32>
  %s = nn.add %m, %bb : tensor<10xWxf32>
  %r = nn.reshape %s : tensor<10xWxf32> -> tensor<2x5xWxf32>
  %q = nn.slice %r starts = [0, 0, 0] limits = [2, 5, V] strides = [1, 1, 1] : tensor<2x5xWxf32> -> tensor<2x5xVxf32>
  %k = nn.slice %r starts = [0, 0, V] limits = [2, 5, W] strides = [1, 1, 1] : tensor<2x5xWxf32> -> tensor<2x5xVxf32>
  %q1 = nn.reshape %q : tensor<2x5xVxf32> -> tensor<2x5x3xCxf32>
  %k1 = nn.reshape %k : tensor<2x5xVxf32> -> tensor<2x5x3xCxf32>
  %q2 = nn.transpose %q1 perm = [0, 2, 1, 3] : tensor<2x5x3xCxf32> -> tensor<2x3x5xCxf32>
  %k2 = nn.transpose %k1 perm = [0, 2, 1, 3] : tensor<2x5x3xCxf32> -> tensor<2x3x5xCxf32>
  %x = nn.transpose %q2 perm = [0, 2, 1, 3] : tensor<2x3x5xCxf32> -> tensor<2x5x3xCxf32>
  %y = nn.transpose %k2 perm = [0, 2, 1, 3] : tensor<2x3x5xCxf32> -> tensor<2x5x3xCxf32>
  %x1 = nn.reshape %x : tensor<2x5x3xCxf32> -> tensor<2x5xVxf32>
  %y1 = nn.reshape %y : tensor<2x5x3xCxf32> -> tensor<2x5xVxf32>
  %px = nn.pad %x1 low = [0, 0, 0] high = [0, 0, V] interior = [0, 0, 0] value = 0.000000e+00 : tensor<2x5xVxf32> -> tensor<2x5xWxf32>
  %py = nn.pad %y1 low = [0, 0, V] high = [0, 0, 0] interior = [0, 0, 0] value = 0.000000e+00 : tensor<2x5xVxf32> -> tensor<2x5xWxf32>
  %p = nn.add %px, %py : tensor<2x5xWxf32>
  %o = nn.reshape %p : tensor<2x5xWxf32> -> tensor<10xWxf32>
  return %q2, %k2, %o : tensor<2x3x5xCxf32>, tensor<2x3x5xCxf32>, tensor<10xWxf32>
})",
                {{"W", 6 * GetParam()}, {"V", 3 * GetParam()}, {"C", GetParam()}}));
}

TEST_P(Sizes, ColumnsAndLookups) {
  check(replace(R"(
func.func @f(%x: tensor<4x5xCxf32>, %y: tensor<4x5xCxf32>, %t: tensor<6xCxf32>, %i: tensor<4x5xi64>) -> (tensor<Cxf32>, tensor<4xCxf32>, tensor<4x5xCxf32>, tensor<6xCxf32>, tensor<f32>, tensor<Cx4x5xf32>) {
  %0 = nn.mul %x, %y : tensor<4x5xCxf32>
  %1 = nn.reduce sum %0 dims = [0, 1] : tensor<4x5xCxf32> -> tensor<Cxf32>
  %2 = nn.reduce max %x dims = [1] : tensor<4x5xCxf32> -> tensor<4xCxf32>
  %3 = nn.embedding %t, %i : (tensor<6xCxf32>, tensor<4x5xi64>) -> tensor<4x5xCxf32>
  %4 = nn.add %3, %x : tensor<4x5xCxf32>
  %5 = nn.embedding_grad %i, %y : (tensor<4x5xi64>, tensor<4x5xCxf32>) -> tensor<6xCxf32>
  %6 = nn.sum_squares %x, %t : (tensor<4x5xCxf32>, tensor<6xCxf32>) -> tensor<f32>
  %7 = nn.transpose %x perm = [2, 0, 1] : tensor<4x5xCxf32> -> tensor<Cx4x5xf32>
  return %1, %2, %4, %5, %6, %7 : tensor<Cxf32>, tensor<4xCxf32>, tensor<4x5xCxf32>, tensor<6xCxf32>, tensor<f32>, tensor<Cx4x5xf32>
})",
                {{"C", GetParam()}}));
}

TEST_P(Sizes, ReducesColumns) {
  // Threads of a block share a column, reductions share a pass over the rows, and a result takes
  // the place of an input with one element per column.
  check(replace(R"(
func.func @f(%x: tensor<3x40xCxf32>, %y: tensor<3x40xCxbf16>, %old: tensor<3xCxf32>, %b: tensor<2x17x3xCxf32>) -> (tensor<3xCxf32>, tensor<3xCxf32>, tensor<3xCxf32>) {
  %0 = nn.cast %y : tensor<3x40xCxbf16> -> tensor<3x40xCxf32>
  %1 = nn.mul %x, %0 : tensor<3x40xCxf32>
  %2 = nn.reduce sum %1 dims = [1] : tensor<3x40xCxf32> -> tensor<3xCxf32>
  %3 = nn.add %2, %old : tensor<3xCxf32>
  %4 = nn.reduce max %x dims = [1] : tensor<3x40xCxf32> -> tensor<3xCxf32>
  %5 = nn.mul %4, %3 : tensor<3xCxf32>
  %6 = nn.reduce sum %b dims = [0, 1] : tensor<2x17x3xCxf32> -> tensor<3xCxf32>
  return %3, %5, %6 : tensor<3xCxf32>, tensor<3xCxf32>, tensor<3xCxf32>
})",
                {{"C", GetParam()}}));
}

TEST(Reductions, InTwoStages) {
  // A GPU's are split, a CPU's are not.
  check(R"(
func.func @f(%x: tensor<4x128x33xf32>, %y: tensor<4x128x33xf32>, %z: tensor<3x8192xf32>) -> (tensor<33xf32>, tensor<3xf32>) {
  %0 = nn.mul %x, %y : tensor<4x128x33xf32>
  %1 = nn.reduce sum %0 dims = [0, 1] : tensor<4x128x33xf32> -> tensor<33xf32>
  %2 = nn.mul %z, %z : tensor<3x8192xf32>
  %3 = nn.reduce sum %2 dims = [1] : tensor<3x8192xf32> -> tensor<3xf32>
  return %1, %3 : tensor<33xf32>, tensor<3xf32>
})");
}

/// The gradient of a norm with its residual: a result along the rows, and three sums of columns.
std::string normGradient(int64_t rows, int64_t columns, bool narrow) {
  std::string text = narrow ? R"(
func.func @f(%x16: tensor<RxCxbf16>, %w: tensor<Cxf32>, %m: tensor<Rxf32>, %s: tensor<Rxf32>, %dy16: tensor<RxCxbf16>, %old16: tensor<RxCxbf16>)
    -> (tensor<RxCxbf16>, tensor<Cxf32>, tensor<Cxf32>, tensor<Cxf32>) {
  %x = nn.cast %x16 : tensor<RxCxbf16> -> tensor<RxCxf32>
  %dy = nn.cast %dy16 : tensor<RxCxbf16> -> tensor<RxCxf32>
  %old = nn.cast %old16 : tensor<RxCxbf16> -> tensor<RxCxf32>
  %dx, %dw, %db = nn.layer_norm_grad %x, %w, %m, %s, %dy : tensor<RxCxf32>, tensor<Cxf32>, tensor<Rxf32>
  %sum = nn.add %dx, %old : tensor<RxCxf32>
  %new = nn.cast %sum : tensor<RxCxf32> -> tensor<RxCxbf16>
  %bias = nn.reduce sum %sum dims = [0] : tensor<RxCxf32> -> tensor<Cxf32>
  return %new, %dw, %db, %bias : tensor<RxCxbf16>, tensor<Cxf32>, tensor<Cxf32>, tensor<Cxf32>
})"
                            : R"(
func.func @f(%x: tensor<RxCxf32>, %w: tensor<Cxf32>, %m: tensor<Rxf32>, %s: tensor<Rxf32>, %y: tensor<RxCxf32>, %old: tensor<RxCxf32>)
    -> (tensor<RxCxf32>, tensor<Cxf32>, tensor<Cxf32>, tensor<Cxf32>) {
  %dy = nn.neg %y : tensor<RxCxf32>
  %dx, %dw, %db = nn.layer_norm_grad %x, %w, %m, %s, %dy : tensor<RxCxf32>, tensor<Cxf32>, tensor<Rxf32>
  %new = nn.add %dx, %old : tensor<RxCxf32>
  %bias = nn.reduce sum %new dims = [0] : tensor<RxCxf32> -> tensor<Cxf32>
  return %new, %dw, %db, %bias : tensor<RxCxf32>, tensor<Cxf32>, tensor<Cxf32>, tensor<Cxf32>
})";
  return replace(text, {{"R", rows}, {"C", columns}});
}

/// Rows, columns, and the kernels that a GPU computes them by: one for the rows and the parts of
/// the sums, and one for each sum of parts.
struct RowsAndSums {
  int64_t rows, columns;
  int kernels;
};

class ColumnSums : public testing::TestWithParam<RowsAndSums> {};
// A warp per row, rows that do not fill a block, parts of columns, two and four warps per row, an
// odd number of rows for a block that takes two side by side. Not together: few rows, rows without
// divisors, few columns, more columns than registers keep.
INSTANTIATE_TEST_SUITE_P(Shapes, ColumnSums,
                         testing::Values(RowsAndSums{128, 64, 4}, RowsAndSums{250, 100, 4},
                                         RowsAndSums{384, 67, 4}, RowsAndSums{128, 900, 4},
                                         RowsAndSums{128, 1100, 4}, RowsAndSums{153, 1100, 4},
                                         RowsAndSums{128, 2500, 4}, RowsAndSums{1, 64, 0},
                                         RowsAndSums{131, 64, 0}, RowsAndSums{128, 7, 0},
                                         RowsAndSums{128, 1, 0}, RowsAndSums{4, 50257, 0}));

TEST_P(ColumnSums, WithTheRows) {
  auto [rows, columns, kernels] = GetParam();
  for (bool narrow : {false, true}) {
    std::string text = normGradient(rows, columns, narrow);
    SCOPED_TRACE(text);
    check(text, narrow ? 0.01 : 2e-5);
    int count = kernelsOnGpu(text);
    if (kernels > 0)
      EXPECT_EQ(count, kernels);
    else
      EXPECT_GE(count, 1);
  }
}

// Rows of a concatenation: a block's rows are of one operand, of the other, or of both.
TEST(ColumnSumsOfJoined, Rows) {
  const char *text = R"(
func.func @f(%x: tensor<90xCxbf16>, %y: tensor<102xCxbf16>) -> (tensor<192xCxf32>, tensor<Cxf32>) {
  %0 = nn.concat %x, %y dim = 0 : (tensor<90xCxbf16>, tensor<102xCxbf16>) -> tensor<192xCxbf16>
  %1 = nn.cast %0 : tensor<192xCxbf16> -> tensor<192xCxf32>
  %2 = nn.reduce sum %1 dims = [1] : tensor<192xCxf32> -> tensor<192xf32>
  %3 = nn.broadcast %2 dims = [0] : tensor<192xf32> -> tensor<192xCxf32>
  %4 = nn.sub %1, %3 : tensor<192xCxf32>
  %5 = nn.reduce sum %4 dims = [0] : tensor<192xCxf32> -> tensor<Cxf32>
  return %4, %5 : tensor<192xCxf32>, tensor<Cxf32>
})";
  for (int64_t columns : {70, 128, 1200}) {
    std::string sized = replace(text, {{"C", columns}});
    SCOPED_TRACE(sized);
    check(sized, 2e-5);
    EXPECT_EQ(kernelsOnGpu(sized), 2);
  }
}

TEST_P(Sizes, Picks) {
  // Indices of one batch row, tuples, and slices. An element that is picked twice is added twice.
  check(replace(R"(
func.func @f(%x: tensor<4x9xCxf32>, %i: tensor<4x5x1xi64>, %t: tensor<6x2xi64>, %y: tensor<4x5xCxf32>, %z: tensor<6xCxf32>, %l: tensor<3xVxf32>, %j: tensor<3x1xi64>, %w: tensor<3xf32>)
    -> (tensor<4x5xCxf32>, tensor<6xCxf32>, tensor<4x9xCxf32>, tensor<4x9xCxf32>, tensor<3xf32>, tensor<3xVxf32>) {
  %0 = nn.gather_nd %x, %i batch_dims = 1 : (tensor<4x9xCxf32>, tensor<4x5x1xi64>) -> tensor<4x5xCxf32>
  %1 = nn.add %0, %y : tensor<4x5xCxf32>
  %2 = nn.gather_nd %x, %t batch_dims = 0 : (tensor<4x9xCxf32>, tensor<6x2xi64>) -> tensor<6xCxf32>
  %3 = nn.gather_nd_grad %i, %y batch_dims = 1 : (tensor<4x5x1xi64>, tensor<4x5xCxf32>) -> tensor<4x9xCxf32>
  %4 = nn.gather_nd_grad %t, %z batch_dims = 0 : (tensor<6x2xi64>, tensor<6xCxf32>) -> tensor<4x9xCxf32>
  %5 = nn.gather_nd %l, %j batch_dims = 1 : (tensor<3xVxf32>, tensor<3x1xi64>) -> tensor<3xf32>
  %6 = nn.gather_nd_grad %j, %w batch_dims = 1 : (tensor<3x1xi64>, tensor<3xf32>) -> tensor<3xVxf32>
  return %1, %2, %3, %4, %5, %6 : tensor<4x5xCxf32>, tensor<6xCxf32>, tensor<4x9xCxf32>, tensor<4x9xCxf32>, tensor<3xf32>, tensor<3xVxf32>
})",
                {{"C", GetParam()}, {"V", 4 + GetParam()}}),
        3e-6, 4);
}

/// Many batch rows: ranges of the gradient kernel consist of whole batch rows.
TEST(Picks, ManyRows) {
  check(R"(
func.func @f(%i: tensor<150x1xi64>, %g: tensor<150xf32>, %x: tensor<150x11xf32>) -> (tensor<150xf32>, tensor<150x11xf32>) {
  %0 = nn.gather_nd %x, %i batch_dims = 1 : (tensor<150x11xf32>, tensor<150x1xi64>) -> tensor<150xf32>
  %1 = nn.gather_nd_grad %i, %g batch_dims = 1 : (tensor<150x1xi64>, tensor<150xf32>) -> tensor<150x11xf32>
  return %0, %1 : tensor<150xf32>, tensor<150x11xf32>
})",
        3e-6, 11);
}

std::string attention(int64_t heads, int64_t groups, int64_t rows, int64_t keys, bool causal,
                      bool mask, const std::string &window = "") {
  std::string text = R"(
func.func @f(%q: tensor<2xHxTxDxf32>, %k: tensor<2xGxSxDxf32>, %v: tensor<2xGxSxExf32>, %do: tensor<2xHxTxExf32>, %m: tensor<1x1xTxSxf32>)
    -> (tensor<2xHxTxExf32>, tensor<2xHxTxf32>, tensor<2xHxTxDxf32>, tensor<2xGxSxDxf32>, tensor<2xGxSxExf32>) {
  %o, %l = nn.attention %q, %k, %v MASK scale = 2.500000e-01 : tensor<2xHxTxDxf32>, tensor<2xGxSxDxf32>, tensor<2xGxSxExf32> -> tensor<2xHxTxExf32>, tensor<2xHxTxf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %o, %l, %do MASK scale = 2.500000e-01 : tensor<2xHxTxDxf32>, tensor<2xGxSxDxf32>, tensor<2xGxSxExf32>, tensor<2xHxTxExf32>, tensor<2xHxTxf32>
  return %o, %l, %dq, %dk, %dv : tensor<2xHxTxExf32>, tensor<2xHxTxf32>, tensor<2xHxTxDxf32>, tensor<2xGxSxDxf32>, tensor<2xGxSxExf32>
})";
  std::string words = mask ? "mask %m : tensor<1x1xTxSxf32>" : "";
  words += causal ? " causal " : "";
  words += window;
  for (size_t at; (at = text.find("MASK")) != std::string::npos;)
    text.replace(at, 4, words);
  return replace(text,
                 {{"H", heads}, {"G", groups}, {"T", rows}, {"S", keys}, {"D", 16}, {"E", 20}});
}

TEST(Attention, Plain) { check(attention(2, 2, 7, 9, false, false), 1e-5); }
TEST(Attention, Causal) { check(attention(2, 2, 80, 80, true, false), 1e-5); }
TEST(Attention, GroupedQueries) { check(attention(4, 2, 17, 17, true, false), 1e-5); }
TEST(Attention, Masked) { check(attention(2, 1, 16, 33, false, true), 1e-5); }
TEST(Attention, HidesKeys) {
  // Padding (rows of the first batch row see nothing at first), a mask of all pairs, numbers in the
  // place of scores.
  struct {
    const char *seen, *words;
  } cases[] = {{"2x1x1x70", "guard causal"},
               {"2x1x1x70", "causal hidden"},
               {"1x4x70x70", "guard"},
               {"2x1x70x70", "hidden"},
               {"2x1x70x1", "added"},
               {"2x1x1x70", "causal hidden lowest"},
               {"2x1x70x1", "added lowest"},
               {"2x1x70x1", "hidden lowest"},
               {"1x4x70x70", "guard causal near"},
               {"2x1x1x70", "hidden near"}};
  for (auto [shape, words] : cases) {
    std::string flags = words;
    std::string hidden = flags.find("hidden") != std::string::npos  ? "hidden = -0.75"
                         : flags.find("added") != std::string::npos ? "hidden = -0.75 added"
                                                                    : "";
    if (size_t at = flags.find("lowest");
        at != std::string::npos) // adding the logarithm of the sum has no effect
      hidden.replace(hidden.find("-0.75"), 5, "-3.4028234663852886E+38");
    std::string mask = "seen %c : tensor<" + std::string(shape) + "xi1> " + hidden +
                       (flags.find("guard") != std::string::npos ? " guard" : "") +
                       (flags.find("causal") != std::string::npos ? " causal" : "") +
                       (flags.find("near") != std::string::npos ? " window = 11" : "");
    std::string text = R"(
func.func @f(%q: tensor<2x4x70x5xf32>, %k: tensor<2x2x70x5xf32>, %v: tensor<2x2x70x9xf32>, %dy: tensor<2x4x70x9xf32>, %b: tensor<1x4x1x70xf32>, %s: tensor<SHAPExf32>)
    -> (tensor<2x4x70x9xf32>, tensor<2x4x70x9xf32>, tensor<2x4x70xf32>, tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32>) {
  %zero = nn.constant dense<0.0> : tensor<SHAPExf32>
  %c = nn.compare gt %s, %zero : tensor<SHAPExf32> -> tensor<SHAPExi1>
  %y, %l = nn.attention %q, %k, %v MASK scale = 2.5e-01 : tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32> -> tensor<2x4x70x9xf32>, tensor<2x4x70xf32>
  %z, %n = nn.attention %q, %k, %v mask %b : tensor<1x4x1x70xf32> MASK scale = 2.5e-01 : tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32> -> tensor<2x4x70x9xf32>, tensor<2x4x70xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %z, %n, %dy mask %b : tensor<1x4x1x70xf32> MASK scale = 2.5e-01 : tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32>, tensor<2x4x70x9xf32>, tensor<2x4x70xf32>
  return %y, %z, %n, %dq, %dk, %dv : tensor<2x4x70x9xf32>, tensor<2x4x70x9xf32>, tensor<2x4x70xf32>, tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32>
})";
    for (size_t at; (at = text.find("SHAPE")) != std::string::npos;)
      text.replace(at, 5, shape);
    for (size_t at; (at = text.find("MASK")) != std::string::npos;)
      text.replace(at, 4, mask);
    check(text, 1e-5);
  }
}

// Blocks of rows start at the first key that one of them sees. More keys than queries, or fewer;
// one key per row; windows that are larger than the tensors.
TEST(Attention, Windows) {
  check(attention(2, 2, 150, 150, true, false, "window = 20"), 1e-5);
  check(attention(4, 2, 150, 150, false, true, "window = 7"), 1e-5);
  check(attention(2, 1, 100, 130, true, true, "window = 33"), 1e-5);
  check(attention(2, 2, 80, 75, false, false, "window = 9"), 1e-5);
  check(attention(2, 2, 70, 70, true, false, "window = 1"), 1e-5);
  check(attention(2, 2, 17, 17, true, false, "window = 9223372036854775807"), 1e-5);
}

TEST(Attention, CausalWithMoreKeys) { check(attention(2, 1, 65, 70, true, true), 1e-5); }

/// The published vectors of Random123 (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  using nn::PhiloxWords;
  EXPECT_EQ(nn::philox({0, 0, 0, 0}, {0, 0}),
            (PhiloxWords{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  uint32_t ones = ~0u;
  EXPECT_EQ(nn::philox({ones, ones, ones, ones}, {ones, ones}),
            (PhiloxWords{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(nn::philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxWords{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

/// Vectors of integers give the words that the scalar definition gives, for
/// wholes, for slices in the first and in another dimension, and beyond 2^31.
TEST_P(Sizes, Dropout) {
  check(replace(R"(
func.func @f(%x: tensor<4xCxf32>, %s: tensor<i64>, %t: tensor<i64>, %m: tensor<i64>) -> (tensor<4xCxf32>, tensor<4xCxf32>, tensor<4xCxf32>, tensor<4xCxf32>) {
  %c = nn.constant dense<1311768467463790320> : tensor<i64>
  %far = nn.constant dense<1234567890123> : tensor<i64>
  %seed = nn.add %s, %c : tensor<i64>
  %0 = nn.dropout %x seed %seed step %t microbatch %m ratio = 0.1 id = 0 : tensor<4xCxf32>, tensor<i64>
  %1 = nn.gelu %0 : tensor<4xCxf32>
  %2 = nn.dropout %1 seed %seed step %t microbatch %m offset %s : tensor<i64> ratio = 0.5 id = 4294967295 of [9, C] : tensor<4xCxf32>, tensor<i64>
  %3 = nn.dropout %x seed %s step %t microbatch %m offset %s : tensor<i64> ratio = 0.3 id = 7 of [4, 1000] : tensor<4xCxf32>, tensor<i64>
  %4 = nn.dropout %x seed %s step %t microbatch %m offset %far : tensor<i64> ratio = 0.3 id = 7 of [4294967296, 1000] : tensor<4xCxf32>, tensor<i64>
  return %0, %2, %3, %4 : tensor<4xCxf32>, tensor<4xCxf32>, tensor<4xCxf32>, tensor<4xCxf32>
})",
                {{"C", GetParam()}}));
}

// The whole tensor, and a rank's part with some heads of each group. Elements are counted in 64
// bits.
TEST(Attention, DropsProbabilities) {
  struct {
    const char *of, *place, *reach;
  } cases[] = {{"", "", "causal"},
               {", of = [4, 2, 6, 70, 70]", ", %o", "causal"},
               {", of = [1048576, 2, 6, 70, 70]", ", %far", "causal"},
               {", of = [4, 2, 6, 70, 70]", ", %o", "causal window = 13"}};
  for (auto [of, place, reach] : cases) {
    std::string types = *of ? "tensor<i64>, tensor<i64>, tensor<i64>, tensor<i64>"
                            : "tensor<i64>, tensor<i64>, tensor<i64>";
    std::string drop = std::string("dropout <ratio = 0.3 : f64, id = 5") + of + "> (%s, %t, %m" +
                       place + " : " + types + ")";
    std::string text = R"(
func.func @f(%q: tensor<2x4x70x5xf32>, %k: tensor<2x2x70x5xf32>, %v: tensor<2x2x70x9xf32>, %dy: tensor<2x4x70x9xf32>) -> (tensor<2x4x70x9xf32>, tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32>) {
  %s = nn.constant dense<81985529216486895> : tensor<i64>
  %t = nn.constant dense<5> : tensor<i64>
  %m = nn.constant dense<2> : tensor<i64>
  %o = nn.constant dense<9800> : tensor<i64>
  %far = nn.constant dense<123456789012> : tensor<i64>
  %y, %l = nn.attention %q, %k, %v REACH scale = 2.5e-01 DROP : tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32> -> tensor<2x4x70x9xf32>, tensor<2x4x70xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %y, %l, %dy REACH scale = 2.5e-01 DROP : tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32>, tensor<2x4x70x9xf32>, tensor<2x4x70xf32>
  return %y, %dq, %dk, %dv : tensor<2x4x70x9xf32>, tensor<2x4x70x5xf32>, tensor<2x2x70x5xf32>, tensor<2x2x70x9xf32>
})";
    for (size_t at; (at = text.find("DROP")) != std::string::npos;)
      text.replace(at, 4, drop);
    for (size_t at; (at = text.find("REACH")) != std::string::npos;)
      text.replace(at, 5, reach);
    check(text);
  }
}

TEST(Rope, BothForms) {
  for (const char *form : {"", "interleaved", "inverse", "interleaved inverse"})
    check(replace(std::string(R"(
func.func @f(%x: tensor<2x3x5x20xf32>, %c: tensor<5x8xf32>, %s: tensor<5x8xf32>) -> tensor<2x3x5x20xf32> {
  %0 = nn.rope %x, %c, %s )") +
                      form + R"( : tensor<2x3x5x20xf32>, tensor<5x8xf32>
  return %0 : tensor<2x3x5x20xf32>
})",
                  {}));
}

// Parts of equal size, wide enough for a GPU's thread to have the same place of each: rotary
// positions with a transposition behind them, a matmul of three projections, parts of whole
// matrices, and one whose runs a transposition takes apart. Then the rotated queries and keys of
// grouped heads with their values, which are joined to rows that have several pairs of parts, and
// rows in which such a pair does not begin at a multiple of its size.
TEST(Concat, Parts) {
  const char *texts[] = {R"(
func.func @f(%x: tensor<3x2x5x64xT>, %c: tensor<5x32xT>, %s: tensor<5x32xT>) -> tensor<3x5x2x64xT> {
  %0 = nn.rope %x, %c, %s : tensor<3x2x5x64xT>, tensor<5x32xT>
  %1 = nn.transpose %0 perm = [0, 2, 1, 3] : tensor<3x2x5x64xT> -> tensor<3x5x2x64xT>
  return %1 : tensor<3x5x2x64xT>
})",
                         R"(
func.func @f(%q: tensor<7x48xT>, %k: tensor<7x48xT>, %v: tensor<7x48xT>, %b: tensor<144xT>) -> tensor<7x144xT> {
  %0 = nn.concat %q, %k, %v dim = 1 : (tensor<7x48xT>, tensor<7x48xT>, tensor<7x48xT>) -> tensor<7x144xT>
  %1 = nn.broadcast %b dims = [1] : tensor<144xT> -> tensor<7x144xT>
  %2 = nn.add %0, %1 : tensor<7x144xT>
  return %2 : tensor<7x144xT>
})",
                         R"(
func.func @f(%x: tensor<5x3x16xT>, %y: tensor<5x3x16xT>) -> tensor<5x6x16xT> {
  %0 = nn.sub %x, %y : tensor<5x3x16xT>
  %1 = nn.concat %0, %x dim = 1 : (tensor<5x3x16xT>, tensor<5x3x16xT>) -> tensor<5x6x16xT>
  return %1 : tensor<5x6x16xT>
})",
                         R"(
func.func @f(%x: tensor<6x32xT>, %y: tensor<6x32xT>) -> tensor<64x6xT> {
  %0 = nn.mul %x, %y : tensor<6x32xT>
  %1 = nn.concat %0, %y dim = 1 : (tensor<6x32xT>, tensor<6x32xT>) -> tensor<6x64xT>
  %2 = nn.transpose %1 perm = [1, 0] : tensor<6x64xT> -> tensor<64x6xT>
  return %2 : tensor<64x6xT>
})",
                         R"(
func.func @f(%q: tensor<3x5x4x64xT>, %k: tensor<3x5x1x64xT>, %v: tensor<15x64xT>, %c: tensor<5x32xT>, %s: tensor<5x32xT>) -> tensor<15x384xT> {
  %0 = nn.rope %q, %c, %s inverse headed : tensor<3x5x4x64xT>, tensor<5x32xT>
  %1 = nn.rope %k, %c, %s inverse headed : tensor<3x5x1x64xT>, tensor<5x32xT>
  %2 = nn.reshape %0 : tensor<3x5x4x64xT> -> tensor<15x256xT>
  %3 = nn.reshape %1 : tensor<3x5x1x64xT> -> tensor<15x64xT>
  %4 = nn.concat %2, %3, %v dim = 1 : (tensor<15x256xT>, tensor<15x64xT>, tensor<15x64xT>) -> tensor<15x384xT>
  return %4 : tensor<15x384xT>
})",
                         R"(
func.func @f(%q: tensor<3x5x2x64xT>, %v: tensor<15x32xT>, %c: tensor<5x32xT>, %s: tensor<5x32xT>) -> tensor<15x160xT> {
  %0 = nn.rope %q, %c, %s headed : tensor<3x5x2x64xT>, tensor<5x32xT>
  %1 = nn.reshape %0 : tensor<3x5x2x64xT> -> tensor<15x128xT>
  %2 = nn.concat %v, %1 dim = 1 : (tensor<15x32xT>, tensor<15x128xT>) -> tensor<15x160xT>
  return %2 : tensor<15x160xT>
})"};
  for (std::string type : {"f32", "bf16"})
    for (std::string text : texts) {
      for (size_t at; (at = text.find("xT>")) != std::string::npos;)
        text.replace(at, 3, "x" + type + ">");
      check(text, type == "f32" ? 3e-6 : 8e-3);
    }
}

// One kernel recomputes a matmul and joins its gradients. The cases: two and three parts per row,
// whole tensors one after the other, and sizes that do not fill the last block. Parts that are
// not a multiple of 32 elements wide are joined by a kernel of their own.
TEST(Concat, PartsAndOthers) {
  std::string text = R"(
func.func @f(%g: tensor<ROWSxWIDTHxT>, %u: tensor<ROWSxWIDTHxT>, %d: tensor<ROWSxWIDTHxT>) -> (tensor<ROWSxWIDTHxT>, tensor<JOINEDxT>) {
  %k:2 = mem.barrier %g, %u : tensor<ROWSxWIDTHxT>, tensor<ROWSxWIDTHxT>
  %s = nn.silu %k#0 {mem.recomputed} : tensor<ROWSxWIDTHxT>
  %h = nn.mul %s, %k#1 {mem.recomputed} : tensor<ROWSxWIDTHxT>
  %0 = nn.mul %d, %s : tensor<ROWSxWIDTHxT>
  %1 = nn.mul %d, %u : tensor<ROWSxWIDTHxT>
  %2 = nn.sub %g, %1 : tensor<ROWSxWIDTHxT>
  %4 = nn.add %d, %u : tensor<ROWSxWIDTHxT>
  %3 = nn.concat OPERANDS dim = DIM : (TYPES) -> tensor<JOINEDxT>
  return %h, %3 : tensor<ROWSxWIDTHxT>, tensor<JOINEDxT>
})";
  struct Case {
    int64_t rows, width, dim, parts;
    int kernels;
  };
  for (Case c : {Case{5, 64, 1, 2, 1},
                 {7, 96, 1, 3, 1},
                 {6, 48, 0, 2, 1},
                 {700, 416, 1, 2, 1},
                 {4, 48, 1, 2, 2}})
    for (std::string type : {"f32", "bf16"}) {
      std::string tensor = "tensor<ROWSxWIDTHxT>", operands = "%2, %0",
                  types = tensor + ", " + tensor;
      if (c.parts == 3) {
        operands += ", %4";
        types += ", " + tensor;
      }
      std::string one = replaceWords(text, {{"OPERANDS", operands},
                                            {"TYPES", types},
                                            {"JOINED", c.dim ? "ROWSxJOIN" : "JOINxWIDTH"},
                                            {"xT>", "x" + type + ">"}});
      one = replace(one, {{"ROWS", c.rows},
                          {"WIDTH", c.width},
                          {"DIM", c.dim},
                          {"JOIN", c.parts * (c.dim ? c.width : c.rows)}});
      check(one, type == "f32" ? 3e-6 : 8e-3);
      EXPECT_EQ(kernelsOnGpu(one), c.kernels) << one;
    }
}

/// The kernels on both sides of a quantized gather over one rank, without the gather, have the bits
/// of the interpreter, which rounds as they do.
void checkQuantized(int64_t blocks, const std::string &wire) {
  mlir::MLIRContext context;
  prepare(context);
  std::string text = replace(R"(
#group = #dist.group<"g", type = f32, wire = WIRE, reduce = f32, trained = true, axes = [], count = COUNT, segments = []>
dist.mesh @mesh <[shard "fsdp"=1]>
dist.unit @u on @mesh["fsdp"] groups = [#group]
func.func @f(%x: tensor<COUNTxf32>) -> tensor<COUNTxWIRE> {
  %0 = dist.unit_gather %x @u[0] over "fsdp" as int8 : tensor<COUNTxf32> -> tensor<COUNTxWIRE>
  return %0 : tensor<COUNTxWIRE>
})",
                             {{"COUNT", blocks * dist::blockOf(dist::Encoding::Int8).elements}});
  for (size_t at; (at = text.find("WIRE")) != std::string::npos;)
    text.replace(at, 4, wire);
  auto module = parse(context, text);
  ASSERT_TRUE(module);
  std::vector<Tensor> arguments = randomArguments(*module, 1, 7);
  interp::Interpreter interpreter{interp::Options()};
  auto expected = interpreter.run(module->lookupSymbol<mlir::func::FuncOp>("f"), {arguments});
  ASSERT_TRUE(succeeded(expected));
  mlir::PassManager manager(&context);
  manager.addPass(createQuantizeGathersPass());
  ASSERT_TRUE(succeeded(manager.run(*module)));
  module->walk([](dist::UnitGatherOp gather) {
    gather.replaceAllUsesWith(gather.getInput());
    gather.erase();
  });
  CompiledKernels native(*module, {});
  EXPECT_EQ(native.count(), 2);
  expectSameBits(native.run(arguments), (*expected)[0]);
  expectSameBits(native.run(arguments, /*chunk=*/1), (*expected)[0]);
  RunOptions emulated;
  emulated.target = "cuda:sm_90a";
  expectSameBits(runNative(*module, arguments, emulated), (*expected)[0]);
}

TEST(Quantized, Blocks) {
  for (int64_t blocks : {1, 2, 7, 65})
    for (const char *wire : {"f32", "bf16"})
      checkQuantized(blocks, wire);
}

TEST(Optimizer, SegmentsOfASlice) {
  check(R"(
func.func @f(%p: tensor<40xf32>, %g: tensor<40xf32>, %m: tensor<40xf32>, %v0: tensor<40xf32>, %s: tensor<f32>) -> (tensor<40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>) {
  %v = nn.abs %v0 : tensor<40xf32>
  %lr = nn.constant dense<1.000000e-02> : tensor<f32>
  %b1 = nn.constant dense<9.000000e-01> : tensor<f32>
  %b2 = nn.constant dense<9.900000e-01> : tensor<f32>
  %eps = nn.constant dense<1.000000e-08> : tensor<f32>
  %e = nn.constant dense<true> : tensor<i1>
  %o = nn.constant dense<40> : tensor<i64>
  %p1, %m1, %v1 = nn.adamw %p, %g, %m, %v enable %e scale %s lr %lr beta1 %b1 beta2 %b2 epsilon %eps weight_decay %b1 bias1 %b1 bias2 %b2 offset %o : tensor<i64> segments = [#nn.update_range<offset = 0, count = 50, factors = #nn.update_factors<lr_scale = 0.25>>, #nn.update_range<offset = 64, count = 10, factors = #nn.update_factors<decay = 0.0>>] : tensor<40xf32>, tensor<f32>
  %p2, %u2 = nn.sgd %p, %g, %m enable %e scale %s lr %lr momentum %b1 weight_decay %b2 factors <decay = 0.5, lr_scale = 4.0> : tensor<40xf32>, tensor<f32>
  return %p1, %m1, %v1, %p2, %u2 : tensor<40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>, tensor<40xf32>
})",
        1e-5);
}

TEST(Optimizer, DisabledKeepsBits) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, R"(
func.func @f(%p: tensor<37xf32>, %g: tensor<37xf32>, %m: tensor<37xf32>, %v: tensor<37xf32>, %s: tensor<f32>) -> (tensor<37xf32>, tensor<37xf32>, tensor<37xf32>) {
  %e = nn.constant dense<false> : tensor<i1>
  %p1, %m1, %v1 = nn.adamw %p, %g, %m, %v enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s : tensor<37xf32>, tensor<f32>
  return %p1, %m1, %v1 : tensor<37xf32>, tensor<37xf32>, tensor<37xf32>
})");
  ASSERT_TRUE(module);
  std::vector<Tensor> arguments = randomArguments(*module, 1, 7);
  arguments[1].mutableFloats()[3] = NAN;
  expectSameBits(runNative(*module, arguments, {}), {arguments[0], arguments[2], arguments[3]});
}

} // namespace
