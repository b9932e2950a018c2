// Searches of tensor splits are done once per problem, and give what a context without a memo
// finds.
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/SearchMemo.h"
#include "shale/InitAll.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace shale;

namespace {

// `$t` stands for the element type, `$up` for attributes of the first weight, `$ranks` for the size
// of the axis, `$scope` for the module of an op, `$r` and `$z` for what is returned.
constexpr StringLiteral kModel = R"(
dist.mesh @mesh <[tensor "tp"=$ranks]>
nn.state @up role = param type = tensor<8x24x$t> {$up}
nn.state @down role = param type = tensor<24x8x$t>
func.func @forward(%x: tensor<4x8x$t>, %up: tensor<8x24x$t> {nn.state = @up}, %down: tensor<24x8x$t> {nn.state = @down})
    -> tensor<4x$z> {
  %h = nn.matmul %x, %up {nn.scope = "$scope"} : (tensor<4x8x$t>, tensor<8x24x$t>) -> tensor<4x24x$t>
  %a = nn.tanh %h : tensor<4x24x$t>
  %y = nn.matmul %a, %down : (tensor<4x24x$t>, tensor<24x8x$t>) -> tensor<4x8x$t>
  return %$r : tensor<4x$z>
}
)";

/// The words of kModel.
struct Words {
  std::string element = "f32", up = "", ranks = "2", size = "8", result = "y", scope = "m";
};

std::string textOf(const Words &words) {
  std::string text = kModel.str();
  auto replace = [&](StringRef word, StringRef with) {
    for (size_t at; (at = text.find(word)) != std::string::npos;)
      text.replace(at, word.size(), with);
  };
  replace("$ranks", words.ranks);
  replace("$up", words.up);
  replace("$scope", words.scope);
  replace("$z", words.size + "x$t");
  replace("$r", words.result);
  replace("$t", words.element);
  return text;
}

/// A context, with a memo or without one.
class Planner {
public:
  explicit Planner(bool remembers) {
    DialectRegistry registry;
    registry.insert<dist::DistDialect, nn::NNDialect, func::FuncDialect>();
    if (remembers)
      registerSearchMemo(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
  }

  /// Returns the planned module; empty if the pass fails.
  std::string plan(const Words &words) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(textOf(words), &context);
    PassManager manager(&context);
    manager.addPass(createPlanShardingPass());
    if (!module || failed(manager.run(*module)))
      return "";
    std::string text;
    llvm::raw_string_ostream os(text);
    module->print(os);
    return text;
  }

  const SearchMemo *memo() {
    return context.getLoadedDialect<dist::DistDialect>()->getRegisteredInterface<SearchMemo>();
  }

private:
  MLIRContext context;
};

TEST(SearchMemo, SearchesEachProblemOnce) {
  Planner plain(false), remembering(true);
  ASSERT_EQ(plain.memo(), nullptr);
  const SearchMemo *memo = remembering.memo();
  ASSERT_NE(memo, nullptr);
  std::vector<Words> problems = {
      {},
      {.element = "f64"},
      {.up = "dist.tensor = #dist.tensor_split<whole>"},
      {.up = "dist.tensor = #dist.tensor_split<column>"},
      {.ranks = "4"},
      {.size = "24", .result = "a"}, // another value is read outside
  };
  std::vector<std::string> plans;
  for (const Words &words : problems) {
    size_t searched = memo->searches();
    plans.push_back(remembering.plan(words));
    EXPECT_FALSE(plans.back().empty());
    EXPECT_EQ(plans.back(), plain.plan(words));
    EXPECT_GT(memo->searches(), searched) << textOf(words);
  }
  EXPECT_NE(plans[0].find("{dist.sharding = #dist.sharding<[{}, {\"tp\"}]>, nn.state = @up}"),
            std::string::npos)
      << plans[0];
  EXPECT_NE(plans[0], plans[2]);
  size_t searched = memo->searches();
  for (auto [words, first] : llvm::zip(problems, plans))
    EXPECT_EQ(remembering.plan(words), first);
  EXPECT_EQ(memo->searches(), searched);
}

// More problems than are kept.
TEST(SearchMemo, Forgets) {
  Planner plain(false), remembering(true);
  constexpr int kProblems = 100;
  for (int round = 0; round < 2; ++round)
    for (int i = 0; i < kProblems; ++i) {
      Words words{.scope = "m." + std::to_string(i)};
      ASSERT_EQ(remembering.plan(words), plain.plan(words));
    }
  EXPECT_EQ(remembering.memo()->searches(), 2 * kProblems);
}

} // namespace
