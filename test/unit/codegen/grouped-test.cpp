//===- grouped-test.cpp - Matmuls of groups of rows, emulated -------------===//
//
// The kernels run in the emulator, in several orders of their threads and without each of their
// barriers, on groups of all kinds: with no rows, with all rows, with ends that decrease or lie
// outside of the rows.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Tensor;

namespace {

using Ends = std::vector<int64_t>;

struct Case {
  int64_t rows, terms, columns;
  Ends ends;
  std::string element = "f32", result = "f32", index = "i32";
};

std::string tensor(std::initializer_list<int64_t> shape, const std::string &element) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string matmul(const Case &c, bool transposed) {
  int64_t groups = c.ends.size();
  std::string lhs = tensor({c.rows, c.terms}, c.element);
  std::string rhs = transposed ? tensor({groups, c.columns, c.terms}, c.element)
                               : tensor({groups, c.terms, c.columns}, c.element);
  std::string ends = tensor({groups}, c.index), result = tensor({c.rows, c.columns}, c.result);
  return "func.func @f(%x: " + lhs + ", %w: " + rhs + ", %e: " + ends + ") -> " + result +
         " {\n  %0 = nn.grouped_matmul %x, %w " + (transposed ? "transpose_rhs " : "") +
         "ends = %e : (" + lhs + ", " + rhs + ", " + ends + ") -> " + result +
         "\n  return %0 : " + result + "\n}";
}

std::string gradient(const Case &c) {
  int64_t groups = c.ends.size();
  std::string lhs = tensor({c.rows, c.terms}, c.element);
  std::string rhs = tensor({c.rows, c.columns}, c.element), ends = tensor({groups}, c.index);
  std::string result = tensor({groups, c.terms, c.columns}, c.result);
  return "func.func @f(%x: " + lhs + ", %g: " + rhs + ", %e: " + ends + ") -> " + result +
         " {\n  %0 = nn.grouped_matmul_grad %x, %g ends = %e : (" + lhs + ", " + rhs + ", " + ends +
         ") -> " + result + "\n  return %0 : " + result + "\n}";
}

/// Compares a kernel with the interpreter. `barriers`: each is needed, as groups have terms.
void check(const std::string &text, const Case &c, bool barriers) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  ASSERT_TRUE(module) << text;
  std::vector<Tensor> arguments = randomArguments(*module, 1, 1);
  std::copy(c.ends.begin(), c.ends.end(), arguments[2].mutableInts());
  std::vector<Tensor> expected = interpret(*module, arguments);
  RunOptions options;
  options.target = "cuda:sm_90a";
  options.dropBarriers = barriers;
  int made = 0;
  std::vector<Tensor> found = runNative(*module, arguments, options, &made);
  EXPECT_EQ(made, 1);
  ASSERT_EQ(found.size(), 1u);
  double scale = 1, worst = 0;
  for (int64_t at = 0; at < found[0].size(); ++at) {
    scale = std::max(scale, std::abs(expected[0].number(at)));
    worst = std::max(worst, std::abs(found[0].number(at) - expected[0].number(at)));
    ASSERT_FALSE(std::isnan(found[0].number(at))) << "element " << at << " of\n" << text;
  }
  double rounding = c.result == "f32" ? 3e-6 : c.result == "f16" ? 1.0 / 2048 : 1.0 / 256;
  EXPECT_LE(worst, rounding * scale) << text;
}

void checkAll(const Case &c, bool barriers = false) {
  check(matmul(c, false), c, barriers);
  check(matmul(c, true), c, barriers);
  check(gradient(c), c, barriers);
}

/// Checks f32, and bf16 with either result.
void checkElements(Case c) {
  checkAll(c);
  c.element = "bf16";
  checkAll(c);
  c.result = "bf16";
  checkAll(c);
}

TEST(GroupedMatmul, UnevenGroups) {
  Case c{150, 96, 72, {70, 71, 71, 150}};
  for (const char *element : {"f32", "bf16", "f16"}) {
    c.element = element;
    checkAll(c, /*barriers=*/true);
  }
  c.result = "f16";
  checkAll(c);
}

TEST(GroupedMatmul, LargeTiles) {
  // 128 rows and columns; the gradient's tile is as large.
  Case c{260, 136, 144, {131, 260}};
  for (const char *element : {"f32", "bf16"}) {
    c.element = element;
    checkAll(c);
  }
}

TEST(GroupedMatmul, OneGroup) {
  checkElements({65, 32, 64, {65}});
  checkElements({65, 32, 64, {0, 65, 65}});
}

TEST(GroupedMatmul, OddSizes) {
  // Accesses of one, two and four elements, lines and terms that end within a tile.
  checkElements({37, 33, 35, {9, 20, 37}});
  checkElements({40, 34, 70, {9, 20, 40}});
  checkElements({40, 44, 36, {9, 20, 40}});
}

TEST(GroupedMatmul, OneTermOrColumn) {
  checkElements({20, 1, 8, {3, 20}});
  checkElements({20, 8, 1, {3, 20}});
  checkElements({1, 1, 1, {1}});
}

TEST(GroupedMatmul, RowsAfterTheLastGroup) {
  checkElements({140, 32, 40, {3, 70}});
  checkElements({140, 32, 40, {0, 0}});
}

TEST(GroupedMatmul, ManyGroups) {
  // More than are loaded at once, and rest.
  Case c{90, 16, 24, {}};
  for (int64_t group = 0; group < 19; ++group)
    c.ends.push_back(std::min<int64_t>(90, group * group / 3));
  checkElements(c);
}

TEST(GroupedMatmul, HostileEnds) {
  Case c{70, 24, 16, {50, 20, -7, 60, INT32_MAX, 3}};
  checkElements(c);
  c.ends = {INT32_MIN, 10, INT32_MIN, 5};
  checkElements(c);
  // Numbers that would be in range if they were cut to 32 bits.
  c.ends = {(int64_t(1) << 32) + 3, 10, INT64_MAX};
  c.index = "i64";
  checkElements(c);
  c.ends = {-(int64_t(1) << 32) + 3, 10, INT64_MIN};
  checkElements(c);
}

TEST(GroupedMatmul, EmptySizes) {
  checkElements({0, 8, 8, {0, 3}});
  checkElements({9, 0, 8, {4, 9}});
  checkElements({9, 8, 0, {4, 9}});
}

} // namespace
