//===- row-form-test.cpp - Rows, columns and refinements of kernels -------===//
#include "KernelRunner.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Codegen/RowForm.h"
#include "mlir/IR/Diagnostics.h"
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;

namespace {

class RowFormTest : public testing::Test {
protected:
  RowFormTest() { prepare(context); }

  /// Returns the form of the body of @f, or failure after a diagnostic, which is kept in `message`.
  mlir::FailureOr<RowForm> choose(const std::string &text) {
    mlir::ScopedDiagnosticHandler handler(&context, [&](mlir::Diagnostic &diagnostic) {
      message = diagnostic.str();
      return mlir::success();
    });
    module = parse(context, text);
    EXPECT_TRUE(module) << text;
    if (!module)
      return mlir::failure();
    function = module->lookupSymbol<mlir::func::FuncOp>("f");
    return chooseRowForm(function.getBody(), columnSums);
  }

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  std::string message;
  bool columnSums = false;
};

const char *elementwise = R"(func.func @f(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = nn.exp %x : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
})";

const char *softmaxSum =
    R"(func.func @f(%x: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4xf32>) {
  %0 = nn.reduce max %x dims = [1] : tensor<4x6xf32> -> tensor<4xf32>
  %1 = nn.broadcast %0 dims = [0] : tensor<4xf32> -> tensor<4x6xf32>
  %2 = nn.sub %x, %1 : tensor<4x6xf32>
  %3 = nn.reduce sum %2 dims = [1] : tensor<4x6xf32> -> tensor<4xf32>
  return %2, %3 : tensor<4x6xf32>, tensor<4xf32>
})";

std::vector<std::vector<int64_t>> loopsOf(const llvm::SmallVector<Box> &boxes) {
  std::vector<std::vector<int64_t>> sizes;
  for (const Box &box : boxes) {
    sizes.push_back({box.start});
    for (Box::Loop loop : box.loops)
      sizes.back().insert(sizes.back().end(), {loop.size, loop.stride});
  }
  return sizes;
}
using Loops = std::vector<std::vector<int64_t>>;

} // namespace

TEST_F(RowFormTest, ElementsOfOneSizeAreFlat) {
  auto form = choose(elementwise);
  ASSERT_TRUE(mlir::succeeded(form));
  EXPECT_TRUE(form->flat);
  EXPECT_EQ(form->parts(), 24);
  EXPECT_FALSE(form->loops);
}

TEST_F(RowFormTest, ReductionsGiveRowsAndLevels) {
  auto form = choose(softmaxSum);
  ASSERT_TRUE(mlir::succeeded(form));
  EXPECT_FALSE(form->flat);
  EXPECT_EQ(form->parts(), 4);
  EXPECT_EQ(form->columns, 6);
  EXPECT_EQ(form->levels, 2u);
  std::vector<unsigned> levels;
  for (auto op : function.getOps<nn::ReduceOp>())
    levels.push_back(form->level.lookup(op));
  EXPECT_EQ(levels, (std::vector<unsigned>{0, 1}));
  ASSERT_EQ(form->stages.size(), 3u);
  EXPECT_EQ(loopsOf(form->stages[2]), (Loops{{0, 6, 1}}));
}

TEST_F(RowFormTest, ASumOverRowsIsALoopInsideAnElement) {
  auto form = choose(R"(func.func @f(%x: tensor<4x6xf32>) -> tensor<6xf32> {
  %0 = nn.reduce sum %x dims = [0] : tensor<4x6xf32> -> tensor<6xf32>
  return %0 : tensor<6xf32>
})");
  ASSERT_TRUE(mlir::succeeded(form));
  EXPECT_TRUE(form->flat);
  EXPECT_TRUE(form->loops);
  EXPECT_EQ(form->parts(), 6);
}

TEST_F(RowFormTest, OutputsWithoutCommonRowsAreAnError) {
  auto form = choose(
      R"(func.func @f(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
  %0 = nn.exp %x : tensor<4xf32>
  %1 = nn.exp %y : tensor<6xf32>
  return %0, %1 : tensor<4xf32>, tensor<6xf32>
})");
  EXPECT_TRUE(mlir::failed(form));
  EXPECT_EQ(message, "'func.return' op outputs of 4 and 6 elements have no common rows");
}

TEST_F(RowFormTest, AKernelWithoutOutputsIsAnError) {
  EXPECT_TRUE(mlir::failed(choose("func.func @f(%x: tensor<4xf32>) { return }")));
  EXPECT_EQ(message, "'func.return' op a kernel without outputs");
}

TEST_F(RowFormTest, SplittingAFlatFormGivesRows) {
  auto form = choose(elementwise);
  ASSERT_TRUE(refine(*form, {Refinement::Split, DimOrigin::Flat, 0, 6}, 0, 0));
  EXPECT_FALSE(form->flat);
  EXPECT_EQ(form->rows, 4);
  EXPECT_EQ(form->columns, 6);
  EXPECT_EQ(loopsOf(form->stages[0]), (Loops{{0, 6, 1}}));
  // Without row reductions the outer part of a split column becomes rows, too.
  ASSERT_TRUE(refine(*form, {Refinement::Split, DimOrigin::Column, 0, 2}, 0, 0));
  EXPECT_EQ(form->rows, 12);
  EXPECT_EQ(form->rowSizes, (llvm::SmallVector<int64_t>{4, 3}));
  EXPECT_EQ(form->columns, 2);
}

TEST_F(RowFormTest, BreakingAFlatFormGivesTwoBoxes) {
  auto form = choose(elementwise);
  ASSERT_TRUE(refine(*form, {Refinement::Break, DimOrigin::Flat, 0, 10}, 0, 0));
  EXPECT_EQ(form->rows, 1);
  EXPECT_EQ(loopsOf(form->stages[0]), (Loops{{0, 10, 1}, {10, 14, 1}}));
}

TEST_F(RowFormTest, ColumnsOfOneStageAreSplitAlone) {
  auto form = choose(softmaxSum);
  ASSERT_TRUE(refine(*form, {Refinement::Split, DimOrigin::Column, 0, 3}, 1, 0));
  EXPECT_EQ(form->rows, 4);
  EXPECT_EQ(loopsOf(form->stages[0]), (Loops{{0, 6, 1}}));
  EXPECT_EQ(loopsOf(form->stages[1]), (Loops{{0, 2, 3, 3, 1}}));
  ASSERT_TRUE(refine(*form, {Refinement::Break, DimOrigin::Column, 0, 1}, 1, 0));
  EXPECT_EQ(loopsOf(form->stages[1]), (Loops{{0, 1, 3, 3, 1}, {3, 1, 3, 3, 1}}));
  ASSERT_TRUE(refine(*form, {Refinement::Split, DimOrigin::Row, 0, 2}, 1, 0));
  EXPECT_EQ(form->rowSizes, (llvm::SmallVector<int64_t>{2, 2}));
}

const char *rowsAndSums =
    R"(func.func @f(%x: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %0 = nn.reshape %x : tensor<8x6xf32> -> tensor<4x2x6xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<4x2x6xf32> -> tensor<4x6xf32>
  %2 = nn.reduce sum %x dims = [1] : tensor<8x6xf32> -> tensor<8xf32>
  %3 = nn.broadcast %2 dims = [0] : tensor<8xf32> -> tensor<8x6xf32>
  %4 = nn.sub %x, %3 : tensor<8x6xf32>
  %5 = nn.reshape %4 : tensor<8x6xf32> -> tensor<4x2x6xf32>
  %6 = nn.reduce sum %5 dims = [1] : tensor<4x2x6xf32> -> tensor<4x6xf32>
  return %4, %1, %6 : tensor<8x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
})";

TEST_F(RowFormTest, SumsOfColumnsBelongToTheRows) {
  columnSums = true;
  auto form = choose(rowsAndSums);
  ASSERT_TRUE(succeeded(form));
  EXPECT_EQ(form->rows, 8);
  EXPECT_EQ(form->columns, 6);
  EXPECT_EQ(form->sumParts, 4);
  ASSERT_EQ(form->sums.size(), 2u);
  EXPECT_EQ(form->sums[0].second, 0u); // before the row's sum is complete
  EXPECT_EQ(form->sums[1].second, 1u);
  EXPECT_FALSE(form->loops);
}

TEST_F(RowFormTest, OnlyTargetsWithSumsOfColumnsHaveThem) {
  auto form = choose(rowsAndSums);
  ASSERT_TRUE(succeeded(form));
  EXPECT_EQ(form->rows, 24); // of the outputs with the fewest elements
  EXPECT_TRUE(form->sums.empty());
  EXPECT_EQ(form->sumParts, 0);
}

TEST_F(RowFormTest, SumsOfOtherPartsDoNotBelongTogether) {
  columnSums = true;
  EXPECT_TRUE(failed(choose(
      R"(func.func @f(%x: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<4x6xf32>, tensor<2x6xf32>) {
  %0 = nn.reshape %x : tensor<8x6xf32> -> tensor<4x2x6xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<4x2x6xf32> -> tensor<4x6xf32>
  %2 = nn.reshape %x : tensor<8x6xf32> -> tensor<2x4x6xf32>
  %3 = nn.reduce sum %2 dims = [1] : tensor<2x4x6xf32> -> tensor<2x6xf32>
  %4 = nn.neg %x : tensor<8x6xf32>
  return %4, %1, %3 : tensor<8x6xf32>, tensor<4x6xf32>, tensor<2x6xf32>
})")));
}

TEST_F(RowFormTest, ARefinementThatCannotHelpIsRefused) {
  auto form = choose(softmaxSum);
  EXPECT_FALSE(refine(*form, {Refinement::Unsupported}, 0, 0));
  EXPECT_FALSE(refine(*form, {Refinement::Break, DimOrigin::Row, 0, 2}, 0, 0));
  EXPECT_TRUE(refine(*form, {Refinement::Scalar}, 0, 0));
  EXPECT_TRUE(form->scalar);
  EXPECT_FALSE(refine(*form, {Refinement::Scalar}, 0, 0));
}
