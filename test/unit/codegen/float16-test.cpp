//===- float16-test.cpp - Narrow floats in generated kernels -----------------===//
#include "KernelRunner.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Element;
using interp::Tensor;

namespace {

std::vector<char> bytesOf(const Tensor &tensor) {
  std::vector<char> bytes(tensor.byteSize());
  tensor.toBytes(bytes.data());
  return bytes;
}

std::vector<Tensor> native(const std::string &text, const std::vector<Tensor> &arguments,
                           const RunOptions &options = {}) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  EXPECT_TRUE(module) << text;
  return module ? runNative(*module, arguments, options) : std::vector<Tensor>();
}

/// f32 values that are hard to round: every sign and exponent with fractions at and
/// beside ties, infinities, NaN.
Tensor hardFloats() {
  std::vector<uint32_t> bits;
  for (uint32_t sign : {0u, 0x80000000u})
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
      for (uint32_t fraction :
           {0u,        1u,        0x7fffu,   0x8000u,   0x8001u,   0xffffu,   0x17fffu,
            0x18000u,  0x18001u,  0xfffu,    0x1000u,   0x1001u,   0x3000u,   0x7fffffu,
            0x7f8000u, 0x7ff000u, 0x7ffffu,  0x80000u,  0x80001u,  0x180000u, 0x17ffffu,
            0x100000u, 0x100001u, 0x300000u, 0x2fffffu, 0x680000u, 0x700000u})
        bits.push_back(sign | exponent << 23 | fraction);
  return Tensor::fromBytes(Element::F32, {int64_t(bits.size())},
                           reinterpret_cast<char *>(bits.data()));
}

void expectRounds(Element narrow, const std::string &name) {
  Tensor x = hardFloats();
  std::string n = std::to_string(x.size());
  auto results = native("func.func @f(%x: tensor<" + n + "xf32>) -> tensor<" + n + "x" + name +
                            "> {\n  %0 = nn.cast %x : tensor<" + n + "xf32> -> tensor<" + n + "x" +
                            name + ">\n  return %0 : tensor<" + n + "x" + name + ">\n}",
                        {x});
  ASSERT_EQ(results.size(), 1u);
  Tensor expected = x.rounded(narrow);
  for (int64_t i = 0; i < x.size(); ++i) {
    if (std::isnan(x.number(i)))
      EXPECT_TRUE(std::isnan(results[0].number(i))) << i;
    else
      EXPECT_EQ(results[0].number(i), expected.number(i)) << "of " << x.number(i);
  }
}

TEST(Half, RoundsBf16ToNearestEven) { expectRounds(Element::BF16, "bf16"); }
TEST(Half, RoundsF16ToNearestEven) { expectRounds(Element::F16, "f16"); }

/// The number with these bits, without its sign, by the definition of the type.
double decoded(int bits, int fractionBits, int bias) {
  int exponent = bits >> fractionBits, fraction = bits & ((1 << fractionBits) - 1);
  return exponent ? std::ldexp(fraction + (1 << fractionBits), exponent - bias - fractionBits)
                  : std::ldexp(fraction, 1 - bias - fractionBits);
}

/// Kernels and the interpreter against a search of the nearest number, and of the even one of two.
void expectQuantizes(Element narrow, const std::string &name, int fractionBits, int bias,
                     int largestBits) {
  Tensor x = hardFloats();
  std::string n = std::to_string(x.size()), type = "tensor<" + n + "x" + name + ">";
  auto results = native("func.func @f(%x: tensor<" + n + "xf32>) -> " + type +
                            " {\n  %0 = nn.quantize %x : tensor<" + n + "xf32> -> " + type +
                            "\n  return %0 : " + type + "\n}",
                        {x});
  ASSERT_EQ(results.size(), 1u);
  Tensor rounded = x.rounded(narrow);
  for (int64_t i = 0; i < x.size(); ++i) {
    double size = std::fabs(x.number(i));
    if (std::isnan(size)) {
      EXPECT_TRUE(std::isnan(results[0].number(i)) && std::isnan(rounded.number(i))) << i;
      continue;
    }
    size = std::min(size, decoded(largestBits, fractionBits, bias)); // it saturates
    int best = 0;
    for (int bits = 1; bits <= largestBits; ++bits) {
      double before = std::fabs(decoded(best, fractionBits, bias) - size),
             now = std::fabs(decoded(bits, fractionBits, bias) - size);
      if (now < before || (now == before && bits % 2 == 0))
        best = bits;
    }
    double expected = std::copysign(decoded(best, fractionBits, bias), x.number(i));
    EXPECT_EQ(results[0].number(i), expected) << "of " << x.number(i);
    EXPECT_EQ(rounded.number(i), expected) << "of " << x.number(i);
  }
}

TEST(Byte, RoundsE4m3ToNearestEven) { expectQuantizes(Element::F8E4M3, "f8E4M3FN", 3, 7, 0x7e); }
TEST(Byte, RoundsE5m2ToNearestEven) { expectQuantizes(Element::F8E5M2, "f8E5M2", 2, 15, 0x7b); }

TEST(Half, WidensEveryPattern) {
  for (auto [narrow, name] : {std::pair(Element::BF16, "bf16"), std::pair(Element::F16, "f16")}) {
    std::vector<uint16_t> bits(65536);
    for (size_t i = 0; i < bits.size(); ++i)
      bits[i] = i;
    Tensor x = Tensor::fromBytes(narrow, {65536}, reinterpret_cast<char *>(bits.data()));
    std::string type = std::string("tensor<65536x") + name + ">";
    auto results = native("func.func @f(%x: " + type +
                              ") -> tensor<65536xf32> {\n  %0 = nn.cast %x : " + type +
                              " -> tensor<65536xf32>\n  return %0 : tensor<65536xf32>\n}",
                          {x});
    ASSERT_EQ(results.size(), 1u);
    for (int64_t i = 0; i < 65536; ++i)
      if (!std::isnan(x.number(i))) {
        ASSERT_EQ(results[0].number(i), x.number(i)) << name << " pattern " << i;
      }
  }
}

/// Native and interpreted results agree within two roundings. Fusion changes no bits.
void check(const std::string &text, double tolerance) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  ASSERT_TRUE(module) << text;
  std::vector<Tensor> arguments = randomArguments(*module, 1, 7),
                      expected = interpret(*module, arguments);
  std::vector<Tensor> whole = runNative(*module, arguments, {});
  ASSERT_EQ(whole.size(), expected.size());
  for (size_t r = 0; r < whole.size(); ++r)
    for (int64_t i = 0; i < whole[r].size(); ++i)
      EXPECT_NEAR(whole[r].number(i), expected[r].number(i),
                  tolerance * std::max(1.0, std::fabs(expected[r].number(i))))
          << "element " << i << " of result " << r;
  RunOptions separate;
  separate.singletons = true;
  std::vector<Tensor> alone = runNative(*module, arguments, separate);
  for (size_t r = 0; r < whole.size(); ++r)
    EXPECT_EQ(bytesOf(alone[r]), bytesOf(whole[r])) << "result " << r;
  RunOptions gpu;
  gpu.target = "cuda:sm_90a";
  std::vector<Tensor> emulated = runNative(*module, arguments, gpu);
  ASSERT_EQ(emulated.size(), expected.size());
  for (size_t r = 0; r < emulated.size(); ++r)
    for (int64_t i = 0; i < emulated[r].size(); ++i)
      EXPECT_NEAR(emulated[r].number(i), expected[r].number(i),
                  tolerance * std::max(1.0, std::fabs(expected[r].number(i))))
          << "element " << i << " of result " << r << ", emulated";
}

std::string sized(std::string text, int64_t columns) {
  for (size_t at; (at = text.find("C")) != std::string::npos;)
    text.replace(at, 1, std::to_string(columns));
  return text;
}

class HalfSizes : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Widths, HalfSizes, testing::Values(1, 7, 16, 33, 80));

TEST_P(HalfSizes, NormsAndMoves) {
  check(sized(R"(
func.func @f(%x: tensor<4xCxbf16>, %s: tensor<Cxbf16>, %dy: tensor<4xCxbf16>) -> (tensor<4xCxbf16>, tensor<4xf32>, tensor<4xCxbf16>, tensor<Cxf32>, tensor<Cx4xbf16>, tensor<4xCxbf16>) {
  %y, %r = nn.rms_norm %x, %s epsilon = 1.0e-5 : tensor<4xCxbf16>, tensor<Cxbf16> -> tensor<4xf32>
  %dx, %ds = nn.rms_norm_grad %x, %s, %r, %dy : tensor<4xCxbf16>, tensor<Cxbf16>, tensor<4xf32>
  %t = nn.transpose %y perm = [1, 0] : tensor<4xCxbf16> -> tensor<Cx4xbf16>
  %p = nn.pad %x low = [1, 0] high = [0, 0] interior = [0, 0] value = 0.5 : tensor<4xCxbf16> -> tensor<5xCxbf16>
  %q = nn.slice %p starts = [0, 0] limits = [4, C] strides = [1, 1] : tensor<5xCxbf16> -> tensor<4xCxbf16>
  return %y, %r, %dx, %ds, %t, %q : tensor<4xCxbf16>, tensor<4xf32>, tensor<4xCxbf16>, tensor<Cxf32>, tensor<Cx4xbf16>, tensor<4xCxbf16>
})",
              GetParam()),
        0.02);
}

TEST_P(HalfSizes, LossAndTables) {
  check(sized(R"(
func.func @f(%x: tensor<4xCxf16>, %l: tensor<4xi64>, %t: tensor<9xCxf16>, %g: tensor<f32>) -> (tensor<f32>, tensor<4xf32>, tensor<4xCxf16>, tensor<4xCxf16>, tensor<9xCxf32>) {
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 : tensor<4xCxf16>, tensor<4xi64>
  %dx = nn.cross_entropy_grad %x, %l, %e, %g ignore_index = -100 : tensor<4xCxf16>, tensor<4xi64>
  %rows = nn.embedding %t, %l : (tensor<9xCxf16>, tensor<4xi64>) -> tensor<4xCxf16>
  %dt = nn.embedding_grad %l, %rows : (tensor<4xi64>, tensor<4xCxf16>) -> tensor<9xCxf32>
  return %s, %e, %dx, %rows, %dt : tensor<f32>, tensor<4xf32>, tensor<4xCxf16>, tensor<4xCxf16>, tensor<9xCxf32>
})",
              GetParam()),
        0.004);
}

// Two query heads per key head, blocks of several rows, and a rounded mask.
TEST_P(HalfSizes, Attention) {
  check(sized(R"(
func.func @f(%q: tensor<2x4x70xCxbf16>, %k: tensor<2x2x70xCxbf16>, %v: tensor<2x2x70x9xbf16>, %m: tensor<1x1x70x70xbf16>, %dy: tensor<2x4x70x9xbf16>) -> (tensor<2x4x70x9xbf16>, tensor<2x4x70xf32>, tensor<2x4x70xCxbf16>, tensor<2x2x70xCxbf16>, tensor<2x2x70x9xbf16>) {
  %y, %l = nn.attention %q, %k, %v mask %m : tensor<1x1x70x70xbf16> causal scale = 2.5e-01 : tensor<2x4x70xCxbf16>, tensor<2x2x70xCxbf16>, tensor<2x2x70x9xbf16> -> tensor<2x4x70x9xbf16>, tensor<2x4x70xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %y, %l, %dy mask %m : tensor<1x1x70x70xbf16> causal scale = 2.5e-01 : tensor<2x4x70xCxbf16>, tensor<2x2x70xCxbf16>, tensor<2x2x70x9xbf16>, tensor<2x4x70x9xbf16>, tensor<2x4x70xf32>
  return %y, %l, %dq, %dk, %dv : tensor<2x4x70x9xbf16>, tensor<2x4x70xf32>, tensor<2x4x70xCxbf16>, tensor<2x2x70xCxbf16>, tensor<2x2x70x9xbf16>
})",
              GetParam()),
        0.02);
}

TEST(Half, AttentionInAWindow) {
  check(R"(
func.func @f(%q: tensor<2x4x150x8xbf16>, %k: tensor<2x2x150x8xbf16>, %v: tensor<2x2x150x9xbf16>, %dy: tensor<2x4x150x9xbf16>) -> (tensor<2x4x150x9xbf16>, tensor<2x4x150xf32>, tensor<2x4x150x8xbf16>, tensor<2x2x150x8xbf16>, tensor<2x2x150x9xbf16>) {
  %y, %l = nn.attention %q, %k, %v causal window = 20 scale = 2.5e-01 : tensor<2x4x150x8xbf16>, tensor<2x2x150x8xbf16>, tensor<2x2x150x9xbf16> -> tensor<2x4x150x9xbf16>, tensor<2x4x150xf32>
  %dq, %dk, %dv = nn.attention_grad %q, %k, %v, %y, %l, %dy causal window = 20 scale = 2.5e-01 : tensor<2x4x150x8xbf16>, tensor<2x2x150x8xbf16>, tensor<2x2x150x9xbf16>, tensor<2x4x150x9xbf16>, tensor<2x4x150xf32>
  return %y, %l, %dq, %dk, %dv : tensor<2x4x150x9xbf16>, tensor<2x4x150xf32>, tensor<2x4x150x8xbf16>, tensor<2x2x150x8xbf16>, tensor<2x2x150x9xbf16>
})",
        0.02);
}

TEST(Half, UpdatesReadAndWriteEachType) {
  check(R"(
func.func @f(%p: tensor<100xbf16>, %g: tensor<100xbf16>, %m: tensor<100xbf16>, %e: tensor<i1>, %h: tensor<f32>) -> (tensor<100xbf16>, tensor<100xbf16>) {
  %on = nn.constant dense<true> : tensor<i1>
  %rate = nn.constant dense<0.125> : tensor<f32>
  %p1, %v1 = nn.sgd %p, %g, %m enable %on scale %rate lr %rate momentum %rate weight_decay %rate : tensor<100xbf16>, tensor<f32>
  return %p1, %v1 : tensor<100xbf16>, tensor<100xbf16>
})",
        0.01);
}

// The kernel of an update also stores casts of its results, and so it does if the update is off. 37
// elements are no multiple of a vector; elements 50 to 63 are padding.
TEST(Half, UpdatesStoreCasts) {
  std::string text = R"(
func.func @f(%p: tensor<100xf32>, %q: tensor<37xf32>, %g: tensor<100xf32>, %m: tensor<100xf32>, %e: tensor<i1>, %h: tensor<f32>) -> (tensor<100xf32>, tensor<100xf32>, tensor<100xbf16>, tensor<100xf16>, tensor<100xbf16>, tensor<37xf32>, tensor<37xf32>, tensor<37xbf16>) {
  %on = nn.constant dense<true> : tensor<i1>
  %off = nn.constant dense<false> : tensor<i1>
  %rate = nn.constant dense<0.125> : tensor<f32>
  %p1, %v1 = nn.sgd %p, %g, %m enable %on scale %rate lr %rate momentum %rate weight_decay %rate segments = [#nn.update_range<offset = 0, count = 50>, #nn.update_range<offset = 64, count = 36, factors = #nn.update_factors<decay = 0.0>>] : tensor<100xf32>, tensor<f32>
  %p2 = nn.cast %p1 : tensor<100xf32> -> tensor<100xbf16>
  %p3 = nn.cast %p1 : tensor<100xf32> -> tensor<100xf16>
  %v2 = nn.cast %v1 : tensor<100xf32> -> tensor<100xbf16>
  %q1, %w1 = nn.sgd %q, %q, %q enable %off scale %rate lr %rate momentum %rate weight_decay %rate : tensor<37xf32>, tensor<f32>
  %q2 = nn.cast %q1 : tensor<37xf32> -> tensor<37xbf16>
  return %p1, %v1, %p2, %p3, %v2, %q1, %w1, %q2 : tensor<100xf32>, tensor<100xf32>, tensor<100xbf16>, tensor<100xf16>, tensor<100xbf16>, tensor<37xf32>, tensor<37xf32>, tensor<37xbf16>
})";
  check(text, 0.01);
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  RunOptions gpu;
  gpu.target = "cuda:sm_90a";
  std::vector<Tensor> arguments = randomArguments(*module, 2, 7);
  int kernels = 0;
  std::vector<Tensor> joined = runNative(*module, arguments, gpu, &kernels);
  EXPECT_EQ(kernels, 2);
  gpu.singletons = true;
  std::vector<Tensor> alone = runNative(*module, arguments, gpu, &kernels);
  EXPECT_EQ(kernels, 6);
  ASSERT_EQ(joined.size(), alone.size());
  for (size_t r = 0; r < joined.size(); ++r)
    EXPECT_EQ(bytesOf(alone[r]), bytesOf(joined[r])) << "result " << r << ", emulated";
}

/// Computes results of @f in one kernel on a GPU's emulator. `R` and `C` in its text stand for the
/// rows and columns.
std::vector<Tensor> inOneKernel(std::string text, int64_t rows, int64_t columns) {
  for (auto [name, size] : {std::pair{'R', rows}, {'C', columns}})
    for (size_t at; (at = text.find(name)) != std::string::npos;)
      text.replace(at, 1, std::to_string(size));
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  EXPECT_TRUE(module) << text;
  RunOptions options;
  options.target = "cuda:sm_90a";
  options.fuse = false;
  options.dropBarriers = false;
  return module ? runNative(*module, randomArguments(*module, 3, 7), options)
                : std::vector<Tensor>();
}

/// Checks that the first result of `beside`, whose kernel reads and stores more, has the bits of
/// the result of `alone`.
void expectSameFirstResult(const std::string &alone, const std::string &beside, int64_t rows,
                           int64_t columns) {
  std::vector<Tensor> one = inOneKernel(alone, rows, columns),
                      two = inOneKernel(beside, rows, columns);
  ASSERT_EQ(one.size(), 1u);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(bytesOf(one.front()), bytesOf(two.front())) << columns << " columns";
}

// Sums have the same order whatever else the kernel reads and stores, so that recomputed values
// have the same bits.
TEST(Half, SumsRowsInOneOrder) {
  for (int64_t columns : {64, 100, 768, 2048, 16384}) {
    expectSameFirstResult(R"(
func.func @f(%x: tensor<RxCxbf16>) -> tensor<Rxf32> {
  %r = nn.cluster (%a = %x : tensor<RxCxbf16>) -> tensor<Rxf32> aliases [-1] {
    %0 = nn.cast %a : tensor<RxCxbf16> -> tensor<RxCxf32>
    %1 = nn.mul %0, %0 : tensor<RxCxf32>
    %2 = nn.reduce sum %1 dims = [1] : tensor<RxCxf32> -> tensor<Rxf32>
    nn.yield %2 : tensor<Rxf32>
  }
  return %r : tensor<Rxf32>
})",
                          R"(
func.func @f(%x: tensor<RxCxbf16>, %y: tensor<RxCxf32>, %z: tensor<RxCxf32>) -> (tensor<Rxf32>, tensor<RxCxf32>) {
  %r:2 = nn.cluster (%a = %x : tensor<RxCxbf16>, %b = %y : tensor<RxCxf32>, %c = %z : tensor<RxCxf32>) -> (tensor<Rxf32>, tensor<RxCxf32>) aliases [-1, -1] {
    %0 = nn.cast %a : tensor<RxCxbf16> -> tensor<RxCxf32>
    %1 = nn.mul %0, %0 : tensor<RxCxf32>
    %2 = nn.reduce sum %1 dims = [1] : tensor<RxCxf32> -> tensor<Rxf32>
    %3 = nn.broadcast %2 dims = [0] : tensor<Rxf32> -> tensor<RxCxf32>
    %4 = nn.mul %3, %b : tensor<RxCxf32>
    %5 = nn.add %4, %c : tensor<RxCxf32>
    nn.yield %2, %5 : tensor<Rxf32>, tensor<RxCxf32>
  }
  return %r#0, %r#1 : tensor<Rxf32>, tensor<RxCxf32>
})",
                          3, columns);
  }
}

TEST(Half, SumsColumnsInOneOrder) {
  for (int64_t columns : {20, 136, 768}) {
    expectSameFirstResult(R"(
func.func @f(%x: tensor<RxCxbf16>) -> tensor<Cxf32> {
  %r = nn.cluster (%a = %x : tensor<RxCxbf16>) -> tensor<Cxf32> aliases [-1] {
    %0 = nn.cast %a : tensor<RxCxbf16> -> tensor<RxCxf32>
    %1 = nn.reduce sum %0 dims = [0] : tensor<RxCxf32> -> tensor<Cxf32>
    nn.yield %1 : tensor<Cxf32>
  }
  return %r : tensor<Cxf32>
})",
                          R"(
func.func @f(%x: tensor<RxCxbf16>, %y: tensor<RxCxf32>) -> (tensor<Cxf32>, tensor<Cxf32>) {
  %r:2 = nn.cluster (%a = %x : tensor<RxCxbf16>, %b = %y : tensor<RxCxf32>) -> (tensor<Cxf32>, tensor<Cxf32>) aliases [-1, -1] {
    %0 = nn.cast %a : tensor<RxCxbf16> -> tensor<RxCxf32>
    %1 = nn.reduce sum %0 dims = [0] : tensor<RxCxf32> -> tensor<Cxf32>
    %2 = nn.mul %0, %b : tensor<RxCxf32>
    %3 = nn.reduce sum %2 dims = [0] : tensor<RxCxf32> -> tensor<Cxf32>
    nn.yield %1, %3 : tensor<Cxf32>, tensor<Cxf32>
  }
  return %r#0, %r#1 : tensor<Cxf32>, tensor<Cxf32>
})",
                          300, columns);
  }
}

} // namespace
