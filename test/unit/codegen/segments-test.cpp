//===- segments-test.cpp - Kernels that visit segments --------------------===//
#include "KernelRunner.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

using namespace shale;
using namespace shale::test;
using interp::Tensor;

namespace {

using Shape = std::vector<int64_t>;

/// A group with padding between the parameters and after them.
struct Group {
  explicit Group(const std::vector<Shape> &shapes) : segments(shapes.size()) {
    for (const Shape &shape : shapes) {
      int64_t elements =
          std::accumulate(shape.begin(), shape.end(), int64_t(1), std::multiplies<>());
      int64_t moment = elements;
      std::string sizes;
      for (int64_t size : shape)
        sizes += (sizes.empty() ? "shape = [" : ", ") + std::to_string(size);
      if (shape.size() > 1 && elements > 0)
        moment = elements / shape.back() + elements / shape[shape.size() - 2];
      text += std::string(text.empty() ? "" : ", ") +
              "#nn.factored_range<offset = " + std::to_string(count) + ", " +
              (sizes.empty() ? "" : sizes + "], ") + "at = " + std::to_string(moments) + ">";
      count += (elements + 15) / 16 * 16;
      moments += (moment + 15) / 16 * 16;
    }
  }
  /// A slice of `size` elements, which begins at the last argument and may extend beyond the group:
  /// means of rows and columns, means of segments of an element that depends on its row and
  /// column, and elements. Each is one kernel.
  std::string function(int64_t size, const std::string &element) const {
    auto vector = [](int64_t n, const std::string &of) {
      return "tensor<" + std::to_string(n) + "x" + of + ">";
    };
    std::string group = vector(size, element), wide = vector(size, "f32"),
                moment = vector(moments, "f32"), each = vector(segments, "f32");
    std::string place = " offset %o : tensor<i64> segments = [" + text + "] : ";
    std::string results = moment + ", " + each + ", " + each + ", " + group;
    std::string code = "func.func @f(%p: " + group + ", %g: " + group + ", %m0: " + moment +
                       ", %r: " + each + ", %s: tensor<f32>, %o: tensor<i64>) -> (" + results +
                       ") {\n  %m = nn.mul %m0, %m0 : " + moment + "\n";
    auto line = [&](const std::string &name, const std::string &op) {
      code += "  %" + name + " = nn." + op + "\n";
    };
    bool casts = element != "f32";
    auto widen = [&](const std::string &name, const std::string &from) {
      if (casts)
        line(name, "cast %" + from + " : " + group + " -> " + wide);
      return casts ? name : from;
    };
    auto gradient = [&](const std::string &name) {
      std::string g = widen(name + "w", "g");
      line(name + "s", "broadcast %s dims = [] : tensor<f32> -> " + wide);
      line(name, "mul %" + g + ", %" + name + "s : " + wide);
    };
    auto direction = [&](const std::string &name) {
      gradient(name + "g");
      line(name + "r", "segment_broadcast %m rows" + place + moment + " -> " + wide);
      line(name + "c", "segment_broadcast %m columns" + place + moment + " -> " + wide);
      line(name + "v", "mul %" + name + "r, %" + name + "c : " + wide);
      line(name + "e", "constant dense<0.0625> : " + wide);
      line(name + "x", "max %" + name + "v, %" + name + "e : " + wide);
      line(name + "q", "sqrt %" + name + "x : " + wide);
      line(name, "div %" + name + "g, %" + name + "q : " + wide);
    };
    gradient("a");
    line("0", "segment_means %a squares factors" + place + wide + " -> " + moment);
    std::string p1 = widen("p1", "p");
    line("1", "segment_means %" + p1 + place + wide + " -> " + each);
    direction("b");
    line("2", "segment_means %b squares" + place + wide + " -> " + each);
    direction("d");
    line("t", "segment_broadcast %r" + place + each + " -> " + wide);
    line("u", "mul %t, %d : " + wide);
    std::string p3 = widen("p3", "p");
    line(casts ? "n" : "3", "sub %" + p3 + ", %u : " + wide);
    if (casts)
      line("3", "cast %n : " + wide + " -> " + group);
    return code + "  return %0, %1, %2, %3 : " + results + "\n}";
  }

  int64_t segments, count = 0, moments = 0;
  std::string text;
};

/// Native, emulated and interpreted results agree, for each begin of the slice. Cutting rows
/// changes no bit. `dropBarriers` is for groups with several matrices: a GPU's block that adds up
/// one mean does not need all barriers.
void check(const std::string &text, const std::vector<int64_t> &begins, double tolerance,
           bool dropBarriers = false) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  ASSERT_TRUE(module) << text;
  RunOptions gpu;
  gpu.target = "cuda:sm_90a";
  gpu.dropBarriers = dropBarriers;
  CompiledKernels native(*module, {}), emulator(*module, gpu);
  EXPECT_EQ(native.count(), 5) << text; // one squares the moment
  EXPECT_EQ(emulator.count(), 5) << text;
  std::vector<Tensor> arguments = randomArguments(*module, 3, 7);
  for (int64_t begin : begins) {
    SCOPED_TRACE("the slice at " + std::to_string(begin) + " of\n" + text);
    arguments.back().mutableInts()[0] = begin;
    std::vector<Tensor> expected = interpret(*module, arguments), found = native.run(arguments),
                        pieces = native.run(arguments, /*chunk=*/1),
                        emulated = emulator.run(arguments);
    ASSERT_EQ(found.size(), expected.size());
    ASSERT_EQ(emulated.size(), expected.size());
    for (size_t r = 0; r < found.size(); ++r)
      for (int64_t i = 0; i < found[r].size(); ++i) {
        double want = expected[r].number(i), bar = tolerance * std::max(1.0, std::abs(want));
        EXPECT_LE(std::abs(emulated[r].number(i) - want), bar)
            << "emulated element " << i << " of result " << r;
        EXPECT_LE(std::abs(found[r].number(i) - want), bar)
            << "element " << i << " of result " << r;
        EXPECT_EQ(found[r].number(i), pieces[r].number(i)) << "element " << i << " of result " << r;
      }
  }
}

TEST(Segments, WholeGroups) {
  for (const Shape &shape : std::vector<Shape>{
           {}, {1}, {37}, {7, 20}, {1, 50}, {50, 1}, {3, 5, 2}, {2, 2, 3, 17}, {90, 100}}) {
    Group group({shape});
    check(group.function(group.count, "f32"), {0}, 1e-5);
  }
}

TEST(Segments, SlicesCutRows) {
  Group group({{5, 20}, {37}, {}, {0, 4}, {3, 5, 2}, {20, 5}});
  for (int64_t size : {31, 100, 256}) {
    std::vector<int64_t> begins;
    for (int64_t begin = 0; begin < group.count; begin += size)
      begins.push_back(begin);
    check(group.function(size, "f32"), begins, 1e-5);
  }
  // A block adds up the means of several matrices, one after another.
  check(group.function(group.count, "f32"), {0}, 1e-5, /*dropBarriers=*/true);
  check(group.function(1, "f32"), {0, 19, 20, 99, 100, 112, 160}, 1e-5);
}

TEST(Segments, HalfTypes) {
  Group group({{5, 20}, {37}, {20, 5}});
  check(group.function(100, "bf16"), {0, 50, 150}, 0.01);
}

TEST(Segments, LongSumsAreExact) {
  // The sum of a million times 0.1: adding one by one in f32 gives an error of 1 %.
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(
      context,
      "func.func @f(%p: tensor<1048576xf32>) -> tensor<1xf32> {\n  %0 = nn.segment_means %p squares segments = "
      "[#nn.factored_range<offset = 0, shape = [1024, 1024], at = 0>] : tensor<1048576xf32> "
      "-> tensor<1xf32>\n  return %0 : tensor<1xf32>\n}");
  ASSERT_TRUE(module);
  std::vector<Tensor> arguments = randomArguments(*module, 1, 7);
  for (int64_t i = 0; i < arguments[0].size(); ++i)
    arguments[0].mutableFloats()[i] = 0.1f;
  double mean = runNative(*module, arguments, {})[0].number(0);
  EXPECT_NEAR(mean, double(0.1f) * 0.1f, 1e-7);
}

TEST(Segments, WithoutFusion) {
  // A kernel per op: elements of broadcasts are computed on their own.
  Group group({{5, 20}, {37}, {3, 5, 2}});
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, group.function(100, "f32"));
  ASSERT_TRUE(module);
  std::vector<Tensor> arguments = randomArguments(*module, 3, 7);
  arguments.back().mutableInts()[0] = 50;
  RunOptions options;
  options.singletons = true;
  std::vector<Tensor> expected = interpret(*module, arguments),
                      found = runNative(*module, arguments, options);
  for (size_t r = 0; r < found.size(); ++r)
    for (int64_t i = 0; i < found[r].size(); ++i)
      EXPECT_NEAR(found[r].number(i), expected[r].number(i),
                  1e-5 * std::max(1.0, std::abs(expected[r].number(i))));
}

TEST(Segments, SeveralGroupsAreSeveralKernels) {
  // Rows of one table and columns of another: what has no kernel together has kernels apart.
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(
      context,
      "func.func @f(%m: tensor<8xf32>) -> tensor<12xf32> {\n"
      "  %0 = nn.segment_broadcast %m rows segments = [#nn.factored_range<offset = 0, shape = [3, 4], at = 0>] : "
      "tensor<8xf32> -> tensor<12xf32>\n"
      "  %1 = nn.segment_broadcast %m columns segments = [#nn.factored_range<offset = 2, shape = [2, 5], at = 1>] : "
      "tensor<8xf32> -> tensor<12xf32>\n"
      "  %2 = nn.add %0, %1 : tensor<12xf32>\n  return %2 : tensor<12xf32>\n}");
  ASSERT_TRUE(module);
  std::vector<Tensor> arguments = randomArguments(*module, 1, 7);
  for (std::string target : {"cpu:native", "cuda:sm_90a"}) {
    RunOptions options;
    options.target = target;
    int kernels = 0;
    std::vector<Tensor> expected = interpret(*module, arguments),
                        found = runNative(*module, arguments, options, &kernels);
    EXPECT_EQ(kernels, 3);
    for (int64_t i = 0; i < 12; ++i)
      EXPECT_NEAR(found[0].number(i), expected[0].number(i), 1e-6);
  }
}

} // namespace
