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

/// A machine with round rates.
Rates makeMachine() {
  Rates r;
  r.name = "test";
  r.flops = 100, r.flopsTf32 = 120, r.flops16 = 200, r.attention = 150, r.scores = 64;
  r.memory = 10, r.hostMemory = 2, r.host = 5, r.launch = 1;
  r.link = 4, r.collective = 7;
  return r;
}
const Rates kMachine = makeMachine();

/// The same machine, but only operations take time.
Rates makeFast() {
  Rates r = kMachine;
  r.memory = r.hostMemory = r.host = r.link = 1e12;
  r.launch = r.collective = 0;
  return r;
}
const Rates kFast = makeFast();

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
    std::string text =
        "module attributes {" + attributes + "} {\ndist.mesh @mesh <" + mesh + ">\n" + kernels;
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
      "%t = rt.collective all_gather %a to %c site = 0 axis = \"fsdp\" name = \"c\" : memref<16xf32> to memref<32xf32>\n";

  /// A collective that starts, as %NAME.
  static std::string start(const std::string &name, const std::string &axis, int site,
                           bool gathers = false) {
    std::string rest =
        std::to_string(site) + " axis = \"" + axis + "\" name = \"b\" : memref<16xf32> to ";
    return "%" + name + " = rt.collective " +
           (gathers ? "all_gather %a to %c" : "all_reduce %b to %b") + " site = " + rest +
           (gathers ? "memref<32xf32>\n" : "memref<16xf32>\n");
  }
  /// Returns the seconds that compute waits for each collective, by site.
  static std::vector<double> exposed(const TimedStep &step) {
    std::vector<double> list;
    for (const TimedOp &op : step.ops)
      if (auto collective = dyn_cast<rt::CollectiveOpInterface>(op.op)) {
        list.resize(std::max<size_t>(list.size(), collective.getSite() + 1));
        list[collective.getSite()] = op.exposed;
      }
    return list;
  }

  std::string mesh = "[shard \"fsdp\"=2]";
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

TEST_F(Time, OfAMatmulIsThatOfItsOperations) {
  auto matmul = [](const std::string &type) {
    return "%x = rt.view %a offset = 0 : memref<16xf32> -> memref<2x5x" + type +
           ">\n%y = rt.view %b offset = 0 : memref<16xf32> -> memref<5x3x" + type +
           ">\n%z = rt.view %c offset = 0 : memref<32xf32> -> memref<2x3xf32>\nrt.gemm %x, %y to %z : memref<2x5x" +
           type + ">, memref<5x3x" + type + "> to memref<2x3xf32>\n";
  };
  EXPECT_DOUBLE_EQ(time(matmul("f32"), kFast).seconds, 0.6);
  EXPECT_DOUBLE_EQ(time(matmul("bf16"), kFast).seconds, 0.3);
  EXPECT_DOUBLE_EQ(time(matmul("f32"), kFast, "rt.allow_tf32").seconds, 0.5);
  EXPECT_DOUBLE_EQ(time(matmul("bf16"), kFast, "rt.allow_tf32").seconds, 0.3);
  // 1536 rows and columns of 8-bit floats at twice the rate of 16-bit floats; without one, that of
  // f32.
  std::string narrow = R"(
    %x = rt.buffer arena offset = 256 activations "x" : memref<16x32xf8E5M2>
    %y = rt.buffer arena offset = 768 activations "y" : memref<48x32xf8E4M3FN>
    %z = rt.buffer arena offset = 2304 activations "z" : memref<16x48xf32>
    %s = rt.view %a offset = 0 : memref<16xf32> -> memref<f32>
    rt.gemm %x, %y transpose_b scales %s, %s to %z : memref<16x32xf8E5M2>, memref<48x32xf8E4M3FN> scales memref<f32>, memref<f32> to memref<16x48xf32>
)";
  Rates rates = kFast;
  EXPECT_DOUBLE_EQ(time(narrow, rates).seconds, 491.52);
  rates.flops8 = 400;
  EXPECT_DOUBLE_EQ(time(narrow, rates).seconds, 122.88);
  // 124 bytes take longer than 60 operations.
  EXPECT_DOUBLE_EQ(time(matmul("f32")).seconds, 13.4);
}

TEST_F(Time, OfAttentionIsThatOfItsMatmulsAndItsScores) {
  const std::string buffers = R"(
    %q = rt.buffer arena offset = 256 activations "q" : memref<1x4x2x8xbf16>
    %l = rt.buffer arena offset = 384 activations "l" : memref<1x2x4xf32>
    %g = rt.buffer arena offset = 512 activations "g" : memref<1x4x6x8xbf16>
    %w = rt.buffer arena offset = 1024 workspace "w" : memref<64xf32>
  )";
  // Two matmuls of 2 heads x 4 x 4 scores x 8 features, and 32 scores.
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

TEST_F(Time, OfAnEpilogueIsThatOfItsMatmulAndItsSecondMatrix) {
  Rates machine = kFast;
  machine.memory = 1000;
  const std::string kernel =
      "rt.kernel @k(%p: tensor<8x8xbf16>, %w: tensor<8x8xbf16>) -> tensor<8x8xbf16> aliases [0] {\n"
      "%0 = nn.mul %p, %w : tensor<8x8xbf16>\nrt.yield %0 : tensor<8x8xbf16>\n}\n";
  const std::string matmul =
      "%m = rt.buffer arena offset = 256 activations \"m\" : memref<8x8xbf16>\n"
      "rt.gemm_epilogue gelu_grad %m, %m with %m to %m else @k : memref<8x8xbf16>, "
      "memref<8x8xbf16>, memref<8x8xbf16> to memref<8x8xbf16>\n";
  EXPECT_DOUBLE_EQ(time(matmul, machine, "", kernel).seconds, 1024.0 / 200 + 128.0 / 1000);
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

TEST_F(Time, OfAKernelOfAMatmulIsThatOfItsRows) {
  // Three matrices of 2 x 4; each of four rows is multiplied with one of them.
  auto kernel = [&](const std::string &type) {
    std::string x = "4x2x" + type, w = "3x2x4x" + type, y = "4x4xf32";
    std::string buffers = "%x = rt.buffer arena offset = 256 activations \"x\" : memref<" + x +
                          ">\n%w = rt.buffer arena offset = 320 activations \"w\" : memref<" + w +
                          ">\n%e = rt.buffer arena offset = 448 activations \"e\" : memref<3xi32>\n"
                          "%y = rt.buffer arena offset = 512 activations \"y\" : memref<" +
                          y + ">\n";
    std::string launch = "rt.launch @k(%x, %w, %e) to (%y) : (memref<" + x + ">, memref<" + w +
                         ">, memref<3xi32>) -> (memref<" + y + ">)\n";
    std::string types = "tensor<" + x + ">, tensor<" + w + ">, tensor<3xi32>";
    std::string code = "rt.kernel @k(%x: tensor<" + x + ">, %w: tensor<" + w +
                       ">, %e: tensor<3xi32>) -> tensor<" + y +
                       "> {\n%0 = nn.grouped_matmul %x, %w ends = %e : (" + types + ") -> tensor<" +
                       y + ">\nrt.yield %0 : tensor<" + y + ">\n}\n";
    return time(buffers + launch, kFast, "rt.allow_tf32", code).seconds;
  };
  EXPECT_DOUBLE_EQ(kernel("f32"), 64.0 / 100);
  EXPECT_DOUBLE_EQ(kernel("bf16"), 64.0 / 200);
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
      time(
          std::string(kGather) +
          "%u = rt.collective all_reduce %b to %b site = 1 axis = \"fsdp\" name = \"b\" : memref<16xf32> to "
          "memref<16xf32>\nrt.wait %t\nrt.wait %u\n")
          .seconds,
      23 + 7 + 16);
}

// A collective that waits behind another one of the stream: what compute waits for is counted where
// it is spent.
TEST_F(Time, ThatComputeWaitsIsCountedAtTheCollectiveThatRuns) {
  TimedStep step = time(start("t", "fsdp", 0, true) + start("u", "fsdp", 1) + kZero +
                        "rt.wait %u\nrt.wait %t\n");
  EXPECT_DOUBLE_EQ(step.seconds, 46);
  EXPECT_DOUBLE_EQ(step.waitSeconds, 46 - 7.4);
  EXPECT_EQ(exposed(step), (std::vector<double>{23 - 7.4, 23}));
}

// Reductions of a bucket are one exchange, which has the latency once.
TEST_F(Time, ABucketHasOneLatency) {
  auto reductions = [](const char *attributes, const char *element = "f32") {
    std::string type = std::string("memref<16x") + element + ">", waits,
                text = "%d = rt.buffer arena offset = 256 activations \"d\" : " + type + "\n";
    for (int site : {0, 1, 2}) {
      std::string name = std::to_string(site);
      text += "%t" + name + " = rt.collective all_reduce %d to %d site = " + name +
              " axis = \"fsdp\" name = \"d\" " + attributes + " : " + type + " to " + type + "\n";
      waits += "rt.wait %t" + name + "\n";
    }
    return text + waits;
  };
  Rates machine = kMachine;
  machine.nodeRanks = 1, machine.network = 1, machine.networkLatency = 2;
  for (const char *gpu : {"", "nn.target = \"cuda:sm_90a\""}) {
    EXPECT_DOUBLE_EQ(time(reductions(""), kMachine, gpu).seconds, 3 * (7 + 16)) << gpu;
    TimedStep step = time(reductions("{rt.bucket = 0 : i64}"), kMachine, gpu);
    EXPECT_DOUBLE_EQ(step.seconds, 7 + 3 * 16) << gpu;
    EXPECT_EQ(exposed(step), (std::vector<double>{23, 16, 16})) << gpu;
    // Between nodes, where latencies are longest.
    EXPECT_DOUBLE_EQ(time(reductions("{rt.bucket = 0 : i64}"), machine, gpu).seconds,
                     7 + 2 + 3 * 64)
        << gpu;
    // GPUs exchange and sum 16-bit floats group by group.
    EXPECT_DOUBLE_EQ(time(reductions("{rt.bucket = 0 : i64}", "bf16"), kMachine, gpu).seconds,
                     (*gpu ? 3 : 1) * 7 + 3 * 8)
        << gpu;
  }
}

// On a GPU each axis has a stream for gathers and one for reductions.
TEST_F(Time, StreamsPerAxisRunBesideOneAnother) {
  const std::string gpu = "nn.target = \"cuda:sm_90a\"";
  mesh = "[replica \"replica\"=2, shard \"fsdp\"=2, tensor \"tp\"=2]";
  const std::string waits = "rt.wait %t\nrt.wait %u\n";
  // Both send 64 bytes within the node: each has half of the rate.
  TimedStep step = time(start("t", "fsdp", 0) + start("u", "tp", 1) + waits, kMachine, gpu);
  EXPECT_DOUBLE_EQ(step.seconds, 7 + 32);
  EXPECT_EQ(exposed(step), (std::vector<double>{39, 0}));
  EXPECT_DOUBLE_EQ(
      time(start("t", "fsdp", 0, true) + start("u", "fsdp", 1) + waits, kMachine, gpu).seconds,
      7 + 32);
  // Those of one stream run in order.
  EXPECT_DOUBLE_EQ(time(start("t", "tp", 0) + start("u", "tp", 1) + waits, kMachine, gpu).seconds,
                   46);
  // Nodes of four ranks: replica leaves them, and is not in the way of tp.
  Rates machine = kMachine;
  machine.nodeRanks = 4, machine.network = 1, machine.networkLatency = 2;
  step = time(start("t", "replica", 0) + start("u", "tp", 1) + "rt.wait %u\nrt.wait %t\n", machine,
              gpu);
  EXPECT_DOUBLE_EQ(step.seconds, 7 + 2 + 64);
  EXPECT_EQ(exposed(step), (std::vector<double>{73 - 23, 23}));
}

TEST(Link, OfAnAxisIsWithinANodeWhereItsRanksAre) {
  Rates r = kMachine; // 4 bytes a second, 7 seconds
  auto link = [&](int64_t ranks, int64_t stride, int64_t size) {
    AxisLink found = linkOf(r, ranks, stride, size);
    EXPECT_DOUBLE_EQ(found.latency, 7 + 2.0 * double(found.nodes - 1));
    return std::make_pair(found.nodes, found.rate);
  };
  using Pair = std::pair<int64_t, double>;
  r.networkLatency = 2;
  EXPECT_EQ(link(1 << 20, 1, 1 << 20), Pair(1, 4)); // one node
  r.nodeRanks = 8, r.network = 1;
  EXPECT_EQ(link(64, 1, 8), Pair(1, 4));
  EXPECT_EQ(link(64, 4, 2), Pair(1, 4));
  EXPECT_EQ(link(6, 2, 3), Pair(1, 4));   // all ranks are in one node
  EXPECT_EQ(link(64, 8, 8), Pair(8, 1));  // a rank of each node
  EXPECT_EQ(link(64, 4, 16), Pair(8, 2)); // two ranks of each node, through two ports
  EXPECT_EQ(link(64, 1, 64), Pair(8, 4)); // eight ports: the node is slower
  EXPECT_EQ(link(64, 16, 4), Pair(4, 1)); // every second node
  EXPECT_EQ(link(9, 1, 3), Pair(2, 1));   // ranks 6, 7 | 8
  EXPECT_EQ(link(12, 1, 12), Pair(3, 1)); // eight and four, and groups that begin elsewhere
}

TEST(MachineFile, NamesLineKeyAndRemedy) {
  const std::string good =
      "name = \"x\"  # a comment\nf32_matmuls = 1e12\ntf32_matmuls = 1e12\nf16_matmuls = 1e12\n"
      "attention_matmuls = 1e12\n\n# more\ndevice_memory = 1e12\nhost_memory = 1e10\n"
      "host_copies = 1e10\nlaunch_latency = 0\nnode_rate = 1e11\nnode_latency = 1e-6\n";
  ToolError error;
  std::optional<Rates> parsed = parseMachine(good, "f", error);
  ASSERT_TRUE(parsed) << error.message;
  EXPECT_EQ(parsed->name, "x");
  EXPECT_EQ(parsed->link, 1e11);
  EXPECT_EQ(parsed->nodeRanks, 0);
  EXPECT_EQ(parsed->capacity, 0);
  EXPECT_FALSE(parsed->oneMemory);
  parsed = parseMachine(good + "capacity = \"80GiB\"\nreserved = \"1GiB\"\none_memory = true\n"
                               "node_ranks = 4\nnetwork_rate = 1e9\nnetwork_latency = 1e-5\n",
                        "f", error);
  ASSERT_TRUE(parsed) << error.message;
  EXPECT_EQ(parsed->capacity, int64_t(80) << 30);
  EXPECT_TRUE(parsed->oneMemory);
  EXPECT_EQ(parsed->nodeRanks, 4);

  auto wrong = [&](const std::string &text) {
    ToolError error;
    EXPECT_FALSE(parseMachine(text, "f", error)) << text;
    EXPECT_EQ(error.exitCode, SHALE_EXIT_DATA);
    return error.message;
  };
  EXPECT_EQ(wrong(""), "f: has no 'name': add the line name = VALUE (a text)");
  EXPECT_EQ(wrong(good + "node_ranks = 4\n"),
            "f: has no 'network_rate': add the line network_rate = VALUE (bytes per second), or "
            "leave out node_ranks");
  EXPECT_EQ(wrong(good + "network_rate = 4\n"),
            "f: has 'network_rate', but no 'node_ranks': add it, or leave out the network, if all "
            "ranks are in one node");
  EXPECT_EQ(wrong(good + "reserved = \"1GiB\"\n"),
            "f: 'reserved' is more than 'capacity', of which it is a part");
  EXPECT_EQ(wrong(good + "node_rate = 2\n"),
            "f:14: 'node_rate' is given again: leave out one of the lines 12 and 14");
  EXPECT_EQ(wrong("nod_rate = 2\n"), "f:1: a machine has no 'nod_rate'; did you mean 'node_rate'?");
  EXPECT_EQ(wrong("\n[rates]\n"), "f:2: '[rates]' is not a key and its value: write KEY = VALUE, "
                                  "and # before a comment");
  for (const char *value : {"0", "0.5", "-1", "nan", "inf", "1e19", "fast", "\"1e12\"", "true", ""})
    EXPECT_EQ(wrong(std::string("node_rate = ") + value),
              "f:1: 'node_rate' is bytes per second, a number from 1 to 1e18, not '" +
                  std::string(value == std::string("\"1e12\"") ? "1e12" : value) + "'");
  EXPECT_EQ(wrong("node_latency = -1"),
            "f:1: 'node_latency' is seconds, a number from 0 to 3600, not '-1'");
  for (const char *value : {"0", "8.5", "1048577", "99999999999999999999"})
    EXPECT_EQ(wrong(std::string("node_ranks = ") + value),
              std::string("f:1: 'node_ranks' is ranks per node, a whole number from 1 to 1048576, "
                          "not '") +
                  value + "'");
  EXPECT_EQ(wrong("capacity = 80"), "f:1: 'capacity' is a size such as \"80GiB\", not '80'");
  EXPECT_EQ(wrong("capacity = \"80XB\""),
            "f:1: 'capacity' is a size such as \"80GiB\", not '80XB'");
  EXPECT_EQ(wrong("one_memory = 1"), "f:1: 'one_memory' is true or false, not '1'");
  for (const char *value : {"x", "\"\"", "\"\x1b[2J\""})
    EXPECT_NE(wrong(std::string("name = ") + value).find("f:1: 'name' is a text in quotes"),
              std::string::npos);
  EXPECT_EQ(wrong("name = \"x"),
            "f:1: 'name': the text does not end with a quote, or has a backslash");
  EXPECT_EQ(wrong("name = \"x\" y"), "f:1: 'name': only a comment can follow the value");
  EXPECT_NE(wrong(std::string(1 << 20, '#')).find("f: is longer than 64 KiB"), std::string::npos);
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
