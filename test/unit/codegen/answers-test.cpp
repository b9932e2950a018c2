// Answers about kernels are computed once per text of the body.
#include "dialects/nn/NN.h"
#include "lib/Codegen/KernelAnswers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Parser/Parser.h"
#include <gtest/gtest.h>
#include <thread>

using namespace mlir;

namespace {
class KernelAnswers : public ::testing::Test {
protected:
  KernelAnswers() { context.loadDialect<shale::nn::NNDialect, func::FuncDialect>(); }
  /// The body of a function that computes `op` on two vectors.
  Region &body(const std::string &op, const std::string &type, const std::string &location = "") {
    std::string text = "func.func @f(%a: " + type + ", %b: " + type + ") -> " + type +
                       " { %c = nn." + op + " %a, %b : " + type + " " + location +
                       "\n return %c : " + type + " }";
    modules.push_back(parseSourceString<ModuleOp>(text, &context));
    EXPECT_TRUE(modules.back());
    return (*modules.back()->getOps<func::FuncOp>().begin()).getBody();
  }
  /// Asks, and answers with the number of times that it was computed.
  std::string ask(const std::string &question, Region &region) {
    return shale::answerOnce(question, region, [&] { return std::to_string(++computed); });
  }
  MLIRContext context;
  std::vector<OwningOpRef<ModuleOp>> modules;
  int computed = 0;
};

TEST_F(KernelAnswers, AreKeptByText) {
  EXPECT_EQ(ask("q", body("add", "tensor<4xf32>")), "1");
  EXPECT_EQ(ask("q", body("add", "tensor<4xf32>")), "1");
  EXPECT_EQ(ask("q", body("add", "tensor<4xf32>", "loc(\"elsewhere\")")), "1");
  EXPECT_EQ(ask("q", body("sub", "tensor<4xf32>")), "2");
  EXPECT_EQ(ask("q", body("add", "tensor<5xf32>")), "3");
  EXPECT_EQ(ask("another", body("add", "tensor<4xf32>")), "4");
  EXPECT_EQ(ask("q", body("sub", "tensor<4xf32>")), "2");
}

TEST_F(KernelAnswers, LargeConstantsAreNotKept) {
  std::string text = "func.func @f() -> tensor<5000xf32> { %c = nn.constant dense<\"0x" +
                     std::string(5000 * 8, '1') +
                     "\"> : tensor<5000xf32>\n return %c : tensor<5000xf32> }";
  modules.push_back(parseSourceString<ModuleOp>(text, &context));
  ASSERT_TRUE(modules.back());
  Region &region = (*modules.back()->getOps<func::FuncOp>().begin()).getBody();
  EXPECT_NE(ask("large", region), ask("large", region));
}

TEST_F(KernelAnswers, ThreadsMayAsk) {
  std::vector<std::thread> threads;
  std::vector<std::string> got(8);
  Region &region = body("mul", "tensor<6xf32>");
  for (std::string &one : got)
    threads.emplace_back([&one, &region] {
      one = shale::answerOnce("threads", region, [] { return std::string("same"); });
    });
  for (std::thread &thread : threads)
    thread.join();
  for (const std::string &one : got)
    EXPECT_EQ(one, "same");
}
} // namespace
