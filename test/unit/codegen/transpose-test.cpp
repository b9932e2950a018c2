//===- transpose-test.cpp - Kernels that transpose matrices ---------------===//
// Every element must be the interpreter's: a transposition moves elements, and what is computed of
// them has the same bits on both sides of it.
#include "KernelRunner.h"
#include "lib/Codegen/RowForm.h"
#include "lib/Target/CUDA/TransposeForm.h"
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Tensor;

namespace {

/// Runs @f with arguments of small whole numbers in the interpreter and in the emulator, and
/// compares all bits. `text` has no op that rounds such numbers.
void check(const std::string &text, int kernels = 1) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  ASSERT_TRUE(module) << text;
  std::vector<Tensor> arguments = randomArguments(*module, 3, 1000);
  for (Tensor &argument : arguments)
    for (int64_t i = 0; argument.isFloat() && i < argument.size(); ++i)
      argument.mutableFloats()[i] = // matmuls with a single number are 8-bit floats
          argument.size() == 1 ? 2 : double((i * 2654435761 >> 7) % 15) - 7;
  std::vector<Tensor> expected = interpret(*module, arguments);
  for (const char *target : {"cuda:sm_90a", "cpu:native"}) {
    RunOptions options;
    options.target = target;
    int made = 0;
    std::vector<Tensor> found = runNative(*module, arguments, options, &made);
    ASSERT_EQ(found.size(), expected.size());
    if (options.target != "cpu:native")
      EXPECT_EQ(made, kernels);
    for (size_t i = 0; i < found.size(); ++i)
      for (int64_t at = 0; at < found[i].size(); ++at)
        ASSERT_EQ(found[i].number(at), expected[i].number(at))
            << "element " << at << " of result " << i << " on " << target;
  }
}

std::string shape(std::initializer_list<int64_t> sizes, const std::string &type) {
  std::string text = "tensor<";
  for (int64_t size : sizes)
    text += std::to_string(size) + "x";
  return text + type + ">";
}

struct Case {
  int64_t outer, rows, columns;
  std::string type;
};
class Transpose : public testing::TestWithParam<Case> {};

// Whole tiles, tiles that are cut at either side, a matrix that is smaller than a tile, and sizes
// for which there are no wide accesses.
INSTANTIATE_TEST_SUITE_P(Sizes, Transpose,
                         testing::Values(Case{1, 128, 128, "bf16"}, Case{1, 144, 80, "bf16"},
                                         Case{3, 64, 72, "f32"}, Case{2, 40, 100, "f16"},
                                         Case{1, 30, 33, "f32"}, Case{1, 31, 128, "bf16"},
                                         Case{2, 96, 64, "i64"}, Case{1, 128, 96, "i1"},
                                         Case{1, 50, 34, "i32"}, Case{1, 2, 1000, "f32"},
                                         Case{1, 17, 5, "bf16"}));

// The op alone.
TEST_P(Transpose, Alone) {
  auto [outer, rows, columns, type] = GetParam();
  std::string from = shape({outer, rows, columns}, type), to = shape({outer, columns, rows}, type);
  check("func.func @f(%x: " + from + ") -> " + to + " {\n%0 = nn.transpose %x perm = [0, 2, 1] : " +
        from + " -> " + to + "\nreturn %0 : " + to + "\n}");
}

// A value and its transpose in 8-bit floats, from one reading.
TEST_P(Transpose, BesideTheValue) {
  auto [outer, rows, columns, type] = GetParam();
  if (type[0] == 'i' || rows % 4 != 0)
    return;
  std::string from = shape({rows, columns}, type), wide = shape({rows, columns}, "f32");
  for (std::string narrow : {"f8E4M3FN", "f8E5M2"}) {
    std::string made = shape({rows, columns}, narrow), to = shape({columns, rows}, narrow);
    check("func.func @f(%x: " + from + ", %s: tensor<f32>) -> (" + made + ", " + to + ") {\n" +
          (type == "f32" ? "%0 = nn.neg %x : " + from + "\n"
                         : "%0 = nn.cast %x : " + from + " -> " + wide + "\n") +
          "%1 = nn.broadcast %s dims = [] : tensor<f32> -> " + wide +
          "\n%2 = nn.mul %0, %1 : " + wide + "\n%3 = nn.quantize %2 : " + wide + " -> " + made +
          "\n%4 = nn.transpose %3 perm = [1, 0] : " + made + " -> " + to +
          "\nreturn %3, %4 : " + made + ", " + to + "\n}");
  }
}

// Ops on both sides of the transposition, with operands in either order.
TEST_P(Transpose, BetweenOps) {
  auto [outer, rows, columns, type] = GetParam();
  if (type != "f32")
    return;
  std::string from = shape({rows, columns}, type), to = shape({columns, rows}, type);
  check("func.func @f(%x: " + from + ", %y: " + from + ", %z: " + to +
        ", %b: " + shape({rows}, "f32") + ") -> " + to + " {\n%0 = nn.add %x, %y : " + from +
        "\n%1 = nn.transpose %0 perm = [1, 0] : " + from + " -> " + to +
        "\n%2 = nn.broadcast %b dims = [1] : " + shape({rows}, "f32") + " -> " + to +
        "\n%3 = nn.add %1, %2 : " + to + "\n%4 = nn.sub %3, %z : " + to + "\nreturn %4 : " + to +
        "\n}");
}

/// Returns the form of the op with the given shape, as "outer rows columns", or "none".
std::string formOf(const std::string &from, const std::string &perm, const std::string &to) {
  mlir::MLIRContext context;
  prepare(context);
  auto module =
      parse(context, "func.func @f(%x: tensor<" + from + ">) -> tensor<" + to +
                         "> {\n%0 = nn.transpose %x perm = [" + perm + "] : tensor<" + from +
                         "> -> tensor<" + to + ">\nreturn %0 : tensor<" + to + ">\n}");
  std::optional<MatrixTranspose> sizes;
  module->walk([&](nn::TransposeOp op) { sizes = matchTranspose(op); });
  return sizes ? std::to_string(sizes->outer) + " " + std::to_string(sizes->rows) + " " +
                     std::to_string(sizes->columns)
               : "none";
}

TEST(TransposeForm, IsThatOfMatrices) {
  EXPECT_EQ(formOf("4x6xf32", "1, 0", "6x4xf32"), "1 4 6");
  EXPECT_EQ(formOf("5x4x6xf32", "0, 2, 1", "5x6x4xf32"), "5 4 6");
  EXPECT_EQ(formOf("2x3x4x5xf32", "0, 3, 1, 2", "2x5x3x4xf32"), "2 12 5");
  EXPECT_EQ(formOf("2x3x4x5xf32", "2, 3, 0, 1", "4x5x2x3xf32"), "1 6 20");
  EXPECT_EQ(formOf("4x1x6xf32", "2, 1, 0", "6x1x4xf32"), "1 4 6");
}

TEST(TransposeForm, IsNoneWhereRowsStayTogether) {
  EXPECT_EQ(formOf("2x3x4xf32", "1, 0, 2", "3x2x4xf32"), "none");
  EXPECT_EQ(formOf("2x3x4xf32", "2, 1, 0", "4x3x2xf32"), "none");
  EXPECT_EQ(formOf("1x4xf32", "1, 0", "4x1xf32"), "none");
}

} // namespace
