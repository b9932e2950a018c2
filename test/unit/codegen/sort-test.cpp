//===- sort-test.cpp - Sorted indices and their sums, emulated ------------===//
//
// The kernels run in the emulator, in several orders of their threads and without each
// of their barriers, on indices that are in no order, out of range, or all the same.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Tensor;

namespace {

constexpr const char *kGpu = "cuda:sm_90a", *kCpu = "cpu:native";

/// Runs @f on a target's kernels, `kernels` in number, and in the interpreter. With `exact` the
/// results are the same numbers. `change` may change the arguments.
void check(
    const std::string &text, int kernels, bool exact, int64_t bound,
    llvm::function_ref<void(std::vector<Tensor> &)> change = [](std::vector<Tensor> &) {},
    const char *target = kGpu) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  ASSERT_TRUE(module) << text;
  std::vector<Tensor> arguments = randomArguments(*module, 1, bound);
  change(arguments);
  std::vector<Tensor> expected = interpret(*module, arguments);
  RunOptions options;
  options.target = target;
  int made = 0;
  std::vector<Tensor> found = runNative(*module, arguments, options, &made);
  EXPECT_EQ(made, kernels);
  ASSERT_EQ(found.size(), expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i].shape(), expected[i].shape());
    double scale = 1, worst = 0;
    for (int64_t at = 0; at < found[i].size(); ++at) {
      scale = std::max(scale, std::abs(expected[i].number(at)));
      worst = std::max(worst, std::abs(found[i].number(at) - expected[i].number(at)));
      ASSERT_EQ(std::isnan(found[i].number(at)), std::isnan(expected[i].number(at)))
          << "element " << at << " of result " << i;
    }
    EXPECT_LE(worst, exact ? 0 : 3e-6 * scale) << "result " << i << " of\n" << text;
  }
}

using Change = llvm::function_ref<void(std::vector<Tensor> &)>;

/// Checks one kernel whose results are exact, on both targets.
void checkOrder(
    const std::string &text, int64_t bound, Change change = [](std::vector<Tensor> &) {}) {
  for (const char *target : {kGpu, kCpu})
    check(text, 1, true, bound, change, target);
}

std::string sort(int64_t count, int64_t bound, const std::string &type = "i64") {
  std::string in = "tensor<" + std::to_string(count) + "x" + type + ">";
  std::string order = "tensor<" + std::to_string(count) + "xi32>";
  std::string starts = "tensor<" + std::to_string(bound + 1) + "xi32>";
  return "func.func @f(%i: " + in + ") -> (" + order + ", " + starts + ") {\n" +
         "  %o, %s = nn.argsort %i bound = " + std::to_string(bound) + " : " + in + " -> " + order +
         ", " + starts + "\n  return %o, %s : " + order + ", " + starts + "\n}";
}

TEST(Argsort, OneTile) {
  // One block and several; the number of values ends in a block, with it, and one before.
  checkOrder(sort(1, 1), 1);
  checkOrder(sort(70, 3), 5);
  checkOrder(sort(300, 127), 128);
  checkOrder(sort(300, 128), 129);
  checkOrder(sort(2048, 400), 401);
  checkOrder(sort(500, 90, "i32"), 95);
}

TEST(Argsort, Tiles) {
  checkOrder(sort(2049, 150), 151);
  checkOrder(sort(5000, 300), 320);
  checkOrder(sort(4500, 1), 1);
}

TEST(Argsort, NothingInRange) { checkOrder(sort(100, 0), 9); }

TEST(Argsort, NoIndices) { checkOrder(sort(0, 200), 1); }

TEST(Argsort, HostileIndices) {
  // Numbers that would be in range if they were cut to 32 bits, or if a sum of them overflowed.
  checkOrder(sort(900, 40), 40, [](std::vector<Tensor> &arguments) {
    int64_t *indices = arguments[0].mutableInts();
    int64_t hostile[] = {INT64_MAX, INT64_MIN, (int64_t(1) << 32) + 3,
                         40,        -2,        -(int64_t(1) << 32) + 3,
                         INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < std::size(hostile); ++i)
      indices[i * 100 + 7] = hostile[i];
  });
}

/// The first `count` elements of each line of `shape`, of `size` elements.
std::string topK(const std::string &shape, int64_t size, int64_t count, const std::string &type,
                 bool smallest = false, const std::string &number = "i64") {
  std::string in = "tensor<" + shape + std::to_string(size) + "x" + type + ">";
  std::string values = "tensor<" + shape + std::to_string(count) + "x" + type + ">";
  std::string indices = "tensor<" + shape + std::to_string(count) + "x" + number + ">";
  return "func.func @f(%x: " + in + ") -> (" + values + ", " + indices + ") {\n" +
         "  %v, %i = nn.top_k %x " + (smallest ? "smallest : " : ": ") + in + " -> " + values +
         ", " + indices + "\n  return %v, %i : " + values + ", " + indices + "\n}";
}

TEST(TopK, Lines) {
  for (bool smallest : {false, true}) {
    checkOrder(topK("40x", 8, 2, "f32", smallest), 1);
    checkOrder(topK("3x7x", 33, 5, "f32", smallest), 1);
    for (const char *type : {"bf16", "f16"}) // numbers that have these types
      checkOrder(topK("600x", 3, 1, type, smallest), 1, [](std::vector<Tensor> &arguments) {
        for (int64_t i = 0; i < arguments[0].size(); ++i)
          arguments[0].mutableFloats()[i] = double(i * i % 17) / 4 - 2;
      });
    checkOrder(topK("", 300, 299, "f32", smallest, "i32"), 1);
  }
  checkOrder(topK("2x", 9, 0, "f32"), 1);
  checkOrder(topK("0x", 9, 2, "f32"), 1);
}

TEST(TopK, Ties) {
  for (bool smallest : {false, true})
    for (int64_t count : {1, 2, 31, 64, 257}) {
      checkOrder(topK("2x", 257, count, "i64", smallest), 3);
      checkOrder(topK("", 257, count, "i32", smallest), 40);
    }
}

TEST(TopK, ExtremeNumbers) {
  for (bool smallest : {false, true})
    for (int64_t count : {1, 3, 9}) {
      checkOrder(topK("2x", 9, count, "f32", smallest), 1, [](std::vector<Tensor> &arguments) {
        double extreme[] = {NAN, -INFINITY, 0.0, -0.0, INFINITY, NAN, 1, INFINITY, -NAN,
                            NAN, NAN,       NAN, NAN,  NAN,      NAN, 1, NAN,      NAN};
        std::copy(std::begin(extreme), std::end(extreme), arguments[0].mutableFloats());
      });
      checkOrder(topK("", 9, count, "i64", smallest), 1, [](std::vector<Tensor> &arguments) {
        int64_t extreme[] = {INT64_MIN, INT64_MAX, 0, -1, INT64_MAX, INT64_MIN, 1, INT64_MIN, 0};
        std::copy(std::begin(extreme), std::end(extreme), arguments[0].mutableInts());
      });
    }
}

std::string gradient(const std::string &shape, int64_t rows, int64_t width,
                     const std::string &type) {
  std::string indices = "tensor<" + shape + "xi64>";
  std::string rowsType = "tensor<" + shape + "x" + std::to_string(width) + "x" + type + ">";
  std::string table = "tensor<" + std::to_string(rows) + "x" + std::to_string(width) + "xf32>";
  return "func.func @f(%i: " + indices + ", %g: " + rowsType + ") -> " + table + " {\n" +
         "  %0 = nn.embedding_grad %i, %g : (" + indices + ", " + rowsType + ") -> " + table +
         "\n  return %0 : " + table + "\n}";
}

TEST(SortedGradient, Widths) {
  // Accesses of one, two and four columns; several rows per block; a last vector that lanes share.
  for (int64_t width : {1, 6, 33, 64, 132})
    check(gradient("4x256", 50, width, "f32"), 3, false, 51);
}

TEST(SortedGradient, LongRuns) {
  // All indices are two rows and one out of range: whole pieces, and rests at both ends.
  check(gradient("1100", 2, 12, "f32"), 3, false, 2);
  check(gradient("2100", 1, 4, "f32"), 3, false, 1);
}

TEST(SortedGradient, HalfWords) {
  check(gradient("1030", 9, 20, "bf16"), 3, false, 10);
  check(gradient("1024", 9, 7, "f16"), 3, false, 10);
}

/// The gradient of a table and the sum of its squares and of those of another gradient.
std::string norm(int64_t count, int64_t rows, int64_t width, const std::string &type) {
  std::string indices = "tensor<" + std::to_string(count) + "xi64>";
  std::string terms = "tensor<" + std::to_string(count) + "x" + std::to_string(width) + "x";
  std::string table = "tensor<" + std::to_string(rows) + "x" + std::to_string(width) + "xf32>";
  return "func.func @f(%i: " + indices + ", %g: " + terms + type + ">, %o: tensor<30xf32>) -> (" +
         table + ", tensor<f32>) {\n  %0 = nn.embedding_grad %i, %g : (" + indices + ", " + terms +
         type + ">) -> " + table + "\n  %1 = nn.sum_squares %o, %0 : (tensor<30xf32>, " + table +
         ") -> tensor<f32>\n  return %0, %1 : " + table + ", tensor<f32>\n}";
}

/// Compares the sum of squares with one that is computed here from the arguments.
void checkNorm(int64_t count, int64_t rows, int64_t width, const std::string &type, int kernels) {
  mlir::MLIRContext context;
  prepare(context);
  std::string text = norm(count, rows, width, type);
  auto module = parse(context, text);
  ASSERT_TRUE(module) << text;
  std::vector<Tensor> arguments = randomArguments(*module, 1, rows + 1);
  std::vector<double> table(rows * width);
  double expected = 0;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t column = 0; column < width; ++column)
      if (int64_t row = arguments[0].ints()[i]; row >= 0 && row < rows)
        table[row * width + column] += arguments[1].number(i * width + column);
  for (double value : table)
    expected += value * value;
  for (int64_t i = 0; i < arguments[2].size(); ++i)
    expected += arguments[2].number(i) * arguments[2].number(i);
  RunOptions options;
  options.target = "cuda:sm_90a";
  int made = 0;
  std::vector<Tensor> found = runNative(*module, arguments, options, &made);
  EXPECT_EQ(made, kernels);
  ASSERT_EQ(found.size(), 2u);
  for (int64_t at = 0; at < found[0].size(); ++at)
    EXPECT_NEAR(found[0].number(at), table[at], 1e-4) << "element " << at;
  EXPECT_NEAR(found[1].number(0), expected, 1e-6 * expected) << text;
}

TEST(SortedGradient, SquaresOfRows) {
  // One row, and columns that one thread, all threads, or threads of several rows of a block share.
  checkNorm(1024, 1, 1, "f32", 5);
  checkNorm(1100, 40, 33, "f32", 5);
  checkNorm(1030, 9, 132, "bf16", 5);
}

TEST(SortedGradient, SquaresOfSeveralStrips) {
  // 5000 columns are two strips, the second of which is not whole, and both are of one block.
  checkNorm(1024, 3, 5000, "f32", 5);
}

TEST(SortedGradient, FewIndicesAreNotSorted) {
  check(gradient("1023", 50, 8, "f32"), 1, false, 51);
}

TEST(SortedGradient, HostileOrder) {
  // Starts in no order and beyond the gradient, positions beyond it. 5000 columns are two strips.
  const char *text = R"(
func.func @f(%o: tensor<100xi32>, %s: tensor<41xi32>, %g: tensor<100xWxf32>, %p: tensor<3xWxf32>) -> (tensor<40xWxf32>, tensor<40xWxf32>, tensor<40xf32>) {
  %0 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<100xi32>, tensor<41xi32>, tensor<100xWxf32>, tensor<3xWxf32>) -> tensor<40xWxf32>
  %1, %2 = nn.sorted_embedding_grad %o, %s, %g, %p : (tensor<100xi32>, tensor<41xi32>, tensor<100xWxf32>, tensor<3xWxf32>) -> (tensor<40xWxf32>, tensor<40xf32>)
  return %0, %1, %2 : tensor<40xWxf32>, tensor<40xWxf32>, tensor<40xf32>
})";
  for (const char *width : {"5", "5000"}) {
    std::string sized = text;
    for (size_t at; (at = sized.find("xWx")) != std::string::npos;)
      sized.replace(at + 1, 1, width);
    check(sized, 2, false, 130, [](std::vector<Tensor> &arguments) {
      arguments[1].mutableInts()[3] = INT32_MIN;
      arguments[1].mutableInts()[4] = INT32_MAX;
      arguments[0].mutableInts()[5] = INT32_MIN;
    });
  }
}

} // namespace
