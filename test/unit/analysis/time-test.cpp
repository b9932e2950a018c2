// Predicted times of a step on a machine with round rates, compared with times computed by hand.
#include "dialects/rt/RT.h"
#include "lib/Analysis/TimeModel.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "shale/InitAll.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace shale;

namespace {

/// Operations, those with operands rounded to TF32, operations on 16-bit floats, those of
/// attention's products, its scores, bytes of memory, sent, copied and of host memory a second;
/// seconds before a launch and before a collective.
constexpr Rates kMachine{"test", 100, 120, 200, 150, 64, 10, 4, 5, 2, 1, 7, false, 0, 0, ""};
/// The same machine, but only operations take time.
constexpr Rates kFast{"fast", 100,  120, 200, 150,   64, 1e12, 1e12,
                      1e12,   1e12, 0,   0,   false, 0,  0,    ""};

class Time : public ::testing::Test {
protected:
  Time() {
    DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
  }

  /// Parses a module whose functions are given; buffers %a, %b, %c of 64 bytes and %h of the host
  /// are the first ops of each.
  void parse(const std::vector<std::pair<std::string, std::string>> &functions,
             const std::string &attributes = "", const std::string &kernels = "") {
    std::string text = "module attributes {" + attributes +
                       "} {\ndist.mesh @mesh <[shard \"fsdp\"=2]>\n" + kernels;
    for (const auto &[name, body] : functions)
      text +=
          "rt.func @" + name + " inputs = [] hyper = [] metrics = [] {\n" + kBuffers + body + "}\n";
    module = parseSourceString<ModuleOp>(text + "}\n", &context);
  }

  TimedStep time(const std::string &body, const Rates &rates = kMachine,
                 const std::string &attributes = "", const std::string &kernels = "") {
    parse({{"step", body}}, attributes, kernels);
    if (!module) {
      ADD_FAILURE() << "does not parse: " << body;
      return {};
    }
    return timeFunction(module->lookupSymbol<rt::FuncOp>("step"), rates);
  }

  static constexpr const char *kBuffers = R"(
    %a = rt.buffer arena activations "a" : memref<16xf32>
    %b = rt.buffer arena offset = 64 activations "b" : memref<16xf32>
    %c = rt.buffer arena offset = 128 activations "c" : memref<32xf32>
    %h = rt.buffer arena host activations "h" : memref<16xf32>
  )";
  static constexpr const char *kZero = "rt.zero %b : memref<16xf32>\n"; // 1 + 64 / 10
  static constexpr const char *kGather = // 64 bytes to one other: 7, then 16
      "%t = rt.all_gather %a to %c site = 0 axis = \"fsdp\" name = \"c\" : memref<16xf32> to memref<32xf32>\n";

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(Time, OfMemoryIsThatOfItsBytes) {
  EXPECT_DOUBLE_EQ(time(kZero).seconds, 7.4);
  EXPECT_DOUBLE_EQ(time("rt.copy %a to %b : memref<16xf32> to memref<16xf32>\n").seconds, 13.8);
  EXPECT_DOUBLE_EQ(time("rt.zero %h : memref<16xf32>\n").seconds, 33); // the host's memory
}

TEST_F(Time, ViewsTakeNone) {
  TimedStep step = time(R"(
    %v = rt.view %a offset = 0 : memref<16xf32> -> memref<4xf32>
    %s = rt.shard %c axis = "fsdp" : memref<32xf32> -> memref<16xf32>
  )");
  EXPECT_EQ(step.ops.size(), 0u);
  EXPECT_EQ(step.seconds, 0);
}

TEST_F(Time, OfAProductIsThatOfItsOperations) {
  auto product = [](const std::string &type) {
    return "%x = rt.view %a offset = 0 : memref<16xf32> -> memref<2x5x" + type +
           ">\n%y = rt.view %b offset = 0 : memref<16xf32> -> memref<5x3x" + type +
           ">\n%z = rt.view %c offset = 0 : memref<32xf32> -> memref<2x3xf32>\nrt.gemm %x, %y to %z : memref<2x5x" +
           type + ">, memref<5x3x" + type + "> to memref<2x3xf32>\n";
  };
  EXPECT_DOUBLE_EQ(time(product("f32"), kFast).seconds, 0.6);
  EXPECT_DOUBLE_EQ(time(product("bf16"), kFast).seconds, 0.3);
  EXPECT_DOUBLE_EQ(time(product("f32"), kFast, "rt.allow_tf32").seconds, 0.5);
  EXPECT_DOUBLE_EQ(time(product("bf16"), kFast, "rt.allow_tf32").seconds, 0.3);
  // 124 bytes take longer than 60 operations.
  EXPECT_DOUBLE_EQ(time(product("f32")).seconds, 13.4);
}

TEST_F(Time, OfAttentionIsThatOfItsProductsAndItsScores) {
  const std::string buffers = R"(
    %q = rt.buffer arena offset = 256 activations "q" : memref<1x4x2x8xbf16>
    %l = rt.buffer arena offset = 384 activations "l" : memref<1x2x4xf32>
    %g = rt.buffer arena offset = 512 activations "g" : memref<1x4x6x8xbf16>
    %w = rt.buffer arena offset = 1024 workspace "w" : memref<64xf32>
  )";
  // Two products of 2 heads x 4 x 4 scores x 8 features, and 32 scores.
  double forward = 1024.0 / 150 + 32.0 / 64;
  EXPECT_DOUBLE_EQ(
      time(buffers +
               "rt.sdpa %q, %q, %q scale = 1.0 to %q, %l workspace %w : memref<1x4x2x8xbf16>, "
               "memref<1x4x2x8xbf16>, memref<1x4x2x8xbf16> to memref<1x4x2x8xbf16>, "
               "memref<1x2x4xf32>, memref<64xf32>\n",
           kFast)
          .seconds,
      forward);
  EXPECT_DOUBLE_EQ(
      time(buffers + "rt.sdpa_grad %q, %q, %q from %q, %l, %q scale = 1.0 to (%g) workspace %w : "
                     "memref<1x4x2x8xbf16>, memref<1x4x2x8xbf16>, memref<1x4x2x8xbf16> from "
                     "memref<1x4x2x8xbf16>, memref<1x2x4xf32> to (memref<1x4x6x8xbf16>), "
                     "memref<64xf32>\n",
           kFast)
          .seconds,
      2.5 * forward);
}

TEST_F(Time, OfAnEpilogueIsThatOfItsProductAndItsSecondMatrix) {
  Rates machine = kFast;
  machine.memory = 1000;
  const std::string kernel =
      "rt.kernel @k(%p: tensor<8x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<8x8xbf16> aliases [0] {\n"
      "%0 = nn.mul %p, %w : tensor<8x8xbf16>\nrt.yield %0 : tensor<8x8xbf16>\n}\n";
  const std::string product =
      "%m = rt.buffer arena offset = 256 activations \"m\" : memref<8x8xbf16>\n"
      "rt.gemm_epilogue gelu_grad %m, %m with %m to %m else @k : memref<8x8xbf16>, "
      "memref<8x8xbf16>, memref<8x8xbf16> to memref<8x8xbf16>\n";
  EXPECT_DOUBLE_EQ(time(product, machine, "", kernel).seconds, 1024.0 / 200 + 128.0 / 1000);
}

TEST_F(Time, OfAKernelIsThatOfItsInstructions) {
  auto kernel = [&](const std::string &op) {
    return time("rt.launch @k(%a) to (%b) : (memref<16xf32>) -> (memref<16xf32>)\n", kFast, "",
                "rt.kernel @k(%x: tensor<16xf32>) -> tensor<16xf32> {\n%0 = nn." + op +
                    " : tensor<16xf32>\nrt.yield %0 : tensor<16xf32>\n}\n")
        .seconds;
  };
  EXPECT_DOUBLE_EQ(kernel("add %x, %x"), 16.0 / 50);
  EXPECT_DOUBLE_EQ(kernel("exp %x"), 16 * 16.0 / 50); // a polynomial
}

TEST_F(Time, KernelsMayConvert16BitFloats) {
  Rates machine = kFast;
  machine.memory = 100;
  machine.flops = 1e6; // so that bytes decide
  machine.bytes16 = 2;
  auto body = [](const std::string &op) {
    return "%x = rt.buffer arena offset = 256 activations \"x\" : memref<16xbf16>\n"
           "%y = rt.buffer arena offset = 320 activations \"y\" : memref<16xf32>\n" +
           op;
  };
  const std::string kernel =
      "rt.kernel @k(%p: tensor<16xbf16>) -> tensor<16xf32> {\n"
      "%0 = nn.cast %p : tensor<16xbf16> -> tensor<16xf32>\nrt.yield %0 : tensor<16xf32>\n}\n";
  std::string launch = body("rt.launch @k(%x) to (%y) : (memref<16xbf16>) -> (memref<16xf32>)\n");
  EXPECT_DOUBLE_EQ(time(launch, machine, "", kernel).seconds, (2 * 32 + 64) / 100.0);
  machine.bytes16 = 1; // the default
  EXPECT_DOUBLE_EQ(time(launch, machine, "", kernel).seconds, (32 + 64) / 100.0);
  machine.bytes16 = 2; // no code converts what is only set to zero
  EXPECT_DOUBLE_EQ(time(body("rt.zero %x : memref<16xbf16>\n"), machine).seconds, 32 / 100.0);
}

TEST_F(Time, CollectivesRunBesideComputeFromTheirStartToTheirWait) {
  TimedStep step = time(std::string(kGather) + kZero + "rt.wait %t\n" + kZero);
  EXPECT_DOUBLE_EQ(step.seconds, 23 + 7.4);
  EXPECT_DOUBLE_EQ(step.waitSeconds, 23 - 7.4);
  EXPECT_DOUBLE_EQ(step.computeSeconds, 2 * 7.4);
  EXPECT_DOUBLE_EQ(step.communicationSeconds, 23);
  // A collective that starts later begins later.
  EXPECT_DOUBLE_EQ(time(std::string(kZero) + kGather + "rt.wait %t\n").seconds, 7.4 + 23);
  // A second collective runs after the first, not beside it.
  EXPECT_DOUBLE_EQ(
      time(std::string(kGather) +
           "%u = rt.all_reduce %b to %b site = 1 axis = \"fsdp\" name = \"b\" : memref<16xf32> to "
           "memref<16xf32>\nrt.wait %t\nrt.wait %u\n")
          .seconds,
      23 + 7 + 16);
}

TEST_F(Time, CopiesAreAStreamOfTheirOwn) {
  const std::string copy =
      "%u = rt.transfer %b to %h index = 0 name = \"b\" : memref<16xf32> to memref<16xf32>\n"; // 1
                                                                                               // +
                                                                                               // 64
                                                                                               // /
                                                                                               // 5
  TimedStep step = time(kGather + copy + "rt.wait %u\nrt.wait %t\n");
  EXPECT_DOUBLE_EQ(step.copySeconds, 13.8);
  EXPECT_DOUBLE_EQ(step.waitSeconds, 23);
  EXPECT_DOUBLE_EQ(step.seconds, 23);
}

TEST_F(Time, AStepIsAllItsMicroBatches) {
  auto zeros = [](int count) {
    std::string body;
    while (count-- > 0)
      body += kZero;
    return body;
  };
  parse({{"accumulate_first", zeros(2)},
         {"accumulate", zeros(3)},
         {"step", zeros(5)},
         {"evaluate", zeros(20)}},
        "nn.accumulate = 6 : i64");
  ASSERT_TRUE(module);
  EXPECT_DOUBLE_EQ(predictSeconds(*module, kMachine), (2 + 4 * 3 + 5) * 7.4);
}

} // namespace
