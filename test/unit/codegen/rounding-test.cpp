//===- rounding-test.cpp - Stochastic rounding in kernels of updates ----------===//
//
// The kernels of CPUs, the emulated ones of GPUs and the interpreter have the bits of an oracle in
// f64 arithmetic.
//
//===----------------------------------------------------------------------===//
#include "KernelRunner.h"
#include "dialects/nn/Philox.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/bit.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Element;
using interp::Tensor;

namespace {

constexpr uint64_t kSeed = 0x123456789abcdef0, kStep = 77;

/// The random word of an element: Philox by the counter that nn.adamw documents.
uint32_t wordOf(uint64_t number) {
  uint64_t block = number / 4;
  return nn::philox({uint32_t(block), uint32_t(block >> 32) + (65535u << 16), uint32_t(kStep),
                     uint32_t(kStep >> 32)},
                    {uint32_t(kSeed), uint32_t(kSeed >> 32)})[number % 4];
}

float ofBits(uint32_t bits) { return llvm::bit_cast<float>(bits); }

/// The number that x is rounded to.
double oracle(float x, uint32_t word) {
  uint32_t bits = llvm::bit_cast<uint32_t>(x);
  double largest = ofBits(0x7F7F0000);
  if (!(std::abs(double(x)) <= largest)) // a NaN, or what nearest rounds to the largest or infinity
    return interp::roundFloat(Element::BF16, x);
  double nearer = ofBits(bits & 0xFFFF0000), further = ofBits((bits & 0xFFFF0000) + 0x10000);
  if (std::isinf(further)) // of the largest number, which is exact
    return nearer;
  double share = (x - nearer) / (further - nearer);
  return (word >> 16) >= 65536 - share * 65536 ? further : nearer;
}

Tensor scalar(int64_t value) {
  Tensor tensor(Element::I64, {});
  tensor.mutableInts()[0] = value;
  return tensor;
}

Tensor floats(Element element, llvm::ArrayRef<double> values) {
  Tensor tensor(element, {int64_t(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutableFloats());
  return tensor;
}

void replaceAll(std::string &text, const std::string &what, const std::string &by) {
  for (size_t at; (at = text.find(what)) != std::string::npos;)
    text.replace(at, what.size(), by);
}

/// The results of nn.assign by the interpreter, on a CPU, and on an emulated GPU. `place` are the
/// operands and attributes that say where the elements are.
std::vector<Tensor> assigned(const Tensor &x, const std::string &place, bool enable = true) {
  std::string text = R"(
func.func @f(%p: tensor<COUNTxbf16>, %x: tensor<COUNTxf32>, %seed: tensor<i64>, %step: tensor<i64>, %o: tensor<i64>) -> tensor<COUNTxbf16> {
  %e = nn.constant dense<ENABLE> : tensor<i1>
  %one = nn.constant dense<1.0> : tensor<f32>
  %r = nn.assign %p, %x enable %e scale %one rounded by %seed, %step : tensor<i64>, tensor<i64> PLACE : tensor<COUNTxbf16> grad tensor<COUNTxf32>, tensor<f32>
  return %r : tensor<COUNTxbf16>
})";
  size_t comma = place.find('@');
  replaceAll(text, "PLACE", comma == std::string::npos ? place : place.substr(comma + 1));
  replaceAll(text, "ENABLE", enable ? "true" : "false");
  replaceAll(text, "COUNT", std::to_string(x.size()));
  int64_t offset = comma == std::string::npos ? 0 : std::stoll(place.substr(0, comma));
  std::vector<double> old(x.size(), -3.5);
  std::vector<Tensor> arguments{floats(Element::BF16, old), x, scalar(kSeed), scalar(kStep),
                                scalar(offset)};
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  EXPECT_TRUE(module) << text;
  if (!module)
    return {};
  interp::Interpreter interpreter{interp::Options()};
  auto known = interpreter.run(module->lookupSymbol<mlir::func::FuncOp>("f"), {arguments});
  EXPECT_TRUE(succeeded(known));
  RunOptions gpu;
  gpu.target = "cuda:sm_90a";
  return {(*known)[0][0], runNative(*module, arguments, {})[0],
          runNative(*module, arguments, gpu)[0]};
}

const char *kNames[] = {"interpreter", "CPU", "emulated GPU"};

void expectOracle(const std::vector<Tensor> &results, const Tensor &x,
                  llvm::function_ref<int64_t(int64_t)> numberOf) {
  ASSERT_EQ(results.size(), 3u);
  for (size_t k = 0; k < results.size(); ++k)
    for (int64_t i = 0; i < x.size(); ++i) {
      int64_t number = numberOf(i);
      double got = results[k].number(i);
      double want = number < 0 ? -3.5 : oracle(float(x.number(i)), wordOf(number));
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(got)) << kNames[k] << ", element " << i;
      else
        EXPECT_TRUE(got == want && std::signbit(got) == std::signbit(want))
            << kNames[k] << ", element " << i << ": " << x.number(i) << " becomes " << got
            << ", not " << want;
    }
}

/// Every sign and exponent with fractions at and beside exact values and ties, infinities, NaN.
Tensor hardFloats() {
  std::vector<double> values;
  for (uint32_t sign : {0u, 0x80000000u})
    for (uint32_t exponent = 0; exponent < 256; ++exponent)
      for (uint32_t fraction : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu, 0x10000u, 0x17fffu,
                                0x7f0000u, 0x7f0001u, 0x7f7fffu, 0x7f8000u, 0x7fffffu})
        values.push_back(ofBits(sign | exponent << 23 | fraction));
  return floats(Element::F32, values);
}

TEST(Rounding, HardValues) {
  Tensor x = hardFloats();
  expectOracle(assigned(x, "{numbers = array<i64: 4096>}"), x, [](int64_t i) { return 4096 + i; });
}

// Numbers beyond 32 bits, and a number of elements that no vector and no chunk divides.
TEST(Rounding, LargeNumbers) {
  std::vector<double> values;
  for (int i = 0; i < 37; ++i)
    values.push_back(float(1 + i * 0.0123));
  Tensor x = floats(Element::F32, values);
  int64_t first = (int64_t(1) << 34) - 16;
  expectOracle(assigned(x, "{numbers = array<i64: 17179869168>}"), x,
               [&](int64_t i) { return first + i; });
}

// Two parameters with padding between them and behind the second: whole, and each half on its own.
TEST(Rounding, SegmentsAndSlices) {
  std::vector<double> values;
  for (int i = 0; i < 192; ++i)
    values.push_back(float(0.01 * i - 0.7));
  std::string segments = "segments = [#nn.update_range<offset = 0, count = 50>, "
                         "#nn.update_range<offset = 64, count = 100>] "
                         "{numbers = array<i64: 320, 64>}";
  auto numberOf = [](int64_t i) -> int64_t {
    return i < 50 ? 320 + i : i >= 64 && i < 164 ? i : -1;
  };
  Tensor x = floats(Element::F32, values);
  expectOracle(assigned(x, segments), x, numberOf);
  for (int64_t begin : {0, 96}) {
    Tensor half = floats(Element::F32, llvm::ArrayRef(values).slice(begin, 96));
    expectOracle(assigned(half, std::to_string(begin) + "@offset %o : tensor<i64> " + segments),
                 half, [&](int64_t i) { return numberOf(begin + i); });
  }
}

TEST(Rounding, DisabledKeepsBits) {
  Tensor x = hardFloats();
  expectOracle(assigned(x, "", /*enable=*/false), x, [](int64_t) { return -1; });
}

// The share of elements that are rounded up is the fraction of the way to the next number.
TEST(Rounding, Distribution) {
  constexpr int64_t count = 1 << 16;
  for (double fraction : {1.0 / 65536, 0.1, 0.5, 0.75, 65535.0 / 65536}) {
    double quantum = std::round(fraction * 65536) / 65536, value = 1 + quantum * 0x1p-7;
    Tensor x = floats(Element::F32, std::vector<double>(count, -value));
    std::vector<Tensor> results = assigned(x, "");
    for (size_t k = 0; k < results.size(); ++k) {
      int64_t up = 0;
      for (int64_t i = 0; i < count; ++i) {
        double got = results[k].number(i);
        ASSERT_TRUE(got == -1 || got == -1 - 0x1p-7) << kNames[k] << ": " << got;
        up += got != -1;
      }
      double deviation = std::sqrt(count * quantum * (1 - quantum));
      EXPECT_LE(std::abs(up - count * quantum), 4 * deviation + 1)
          << kNames[k] << ": " << up << " of " << count << " for a fraction of " << quantum;
    }
  }
}

// Moments in blocks: a thread's elements are not neighbours. The parameter moves by 2^-9 times an
// element's sign, so that all steps are exact in f32.
TEST(Rounding, BlocksOfMoments) {
  std::string text = R"(
func.func @f(%p: tensor<512xbf16>, %g: tensor<512xf32>, %m: tensor<130xi32>, %seed: tensor<i64>, %step: tensor<i64>) -> (tensor<512xbf16>, tensor<130xi32>, tensor<130xi32>) {
  %e = nn.constant dense<true> : tensor<i1>
  %one = nn.constant dense<1.0> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %lr = nn.constant dense<0.001953125> : tensor<f32>
  %r, %m1, %v1 = nn.adamw8bit %p, %g, %m, %m enable %e scale %one lr %lr beta1 %zero beta2 %zero epsilon %zero weight_decay %zero bias1 %one bias2 %one rounded by %seed, %step : tensor<i64>, tensor<i64> segments = [#nn.update_range<offset = 0, count = 256>, #nn.update_range<offset = 256, count = 200>] {numbers = array<i64: 1024, 256>} : tensor<512xbf16> grad tensor<512xf32> state tensor<130xi32>, tensor<f32>
  return %r, %m1, %v1 : tensor<512xbf16>, tensor<130xi32>, tensor<130xi32>
})";
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  ASSERT_TRUE(module);
  std::vector<double> old, gradient;
  for (int i = 0; i < 512; ++i) {
    old.push_back(1 + (i % 100) * 0x1p-7);
    gradient.push_back(i % 3 == 0 ? 2 : -4);
  }
  Tensor moments(Element::I32, {130});
  std::fill_n(moments.mutableInts(), 130, 0);
  std::vector<Tensor> arguments{floats(Element::BF16, old), floats(Element::F32, gradient), moments,
                                scalar(kSeed), scalar(kStep)};
  interp::Interpreter interpreter{interp::Options()};
  auto known = interpreter.run(module->lookupSymbol<mlir::func::FuncOp>("f"), {arguments});
  ASSERT_TRUE(succeeded(known));
  RunOptions gpu;
  gpu.target = "cuda:sm_90a";
  std::vector<Tensor> all[] = {(*known)[0], runNative(*module, arguments, {}),
                               runNative(*module, arguments, gpu)};
  for (auto [k, results] : llvm::enumerate(all))
    for (int64_t i = 0; i < 512; ++i) {
      double next = old[i] - (gradient[i] > 0 ? 0x1p-9 : -0x1p-9);
      double want = i >= 456 ? old[i] : oracle(float(next), wordOf(i < 256 ? 1024 + i : i));
      EXPECT_EQ(results[0].number(i), want) << kNames[k] << ", element " << i;
    }
}

// Gradient descent to a target by steps below half of the distance between neighbours of bf16. In
// f32 the loss vanishes. Rounded to nearest, the parameters do not move at all; rounded
// stochastically they reach the target, but for the distance between neighbours.
TEST(Rounding, SmallStepsAreNotLost) {
  constexpr int64_t count = 4096, steps = 400;
  constexpr double target = 1.25 + 0.25 * 0x1p-7, start = target + 0.06 - 0.75 * 0x1p-7;
  auto train = [&](const std::string &type, const std::string &rounded) {
    std::string text = R"(
func.func @f(%p: tensor<4096xT>, %g: tensor<4096xf32>, %v: tensor<4096xf32>, %seed: tensor<i64>, %step: tensor<i64>) -> tensor<4096xT> {
  %e = nn.constant dense<true> : tensor<i1>
  %one = nn.constant dense<1.0> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %lr = nn.constant dense<0.015625> : tensor<f32>
  %r, %v1 = nn.sgd %p, %g, %v enable %e scale %one lr %lr momentum %zero weight_decay %zero ROUNDED : tensor<4096xT> grad tensor<4096xf32> state tensor<4096xf32>, tensor<f32>
  return %r : tensor<4096xT>
})";
    replaceAll(text, "xT>", "x" + type + ">");
    replaceAll(text, "ROUNDED", rounded);
    replaceAll(text, "tensor<4096xf32> grad tensor<4096xf32> state tensor<4096xf32>",
               "tensor<4096xf32>");
    mlir::MLIRContext context;
    prepare(context);
    auto module = parse(context, text);
    EXPECT_TRUE(module) << text;
    CompiledKernels kernels(*module, {});
    Element element = type == "f32" ? Element::F32 : Element::BF16;
    Tensor param = floats(element, std::vector<double>(count, start)), still(Element::F32, {count});
    param.roundToElement();
    still.fill(0);
    for (int64_t step = 0; step < steps; ++step) {
      std::vector<double> gradient;
      for (int64_t i = 0; i < count; ++i)
        gradient.push_back(float(param.number(i) - target));
      param = kernels.run(
          {param, floats(Element::F32, gradient), still, scalar(kSeed), scalar(step)})[0];
    }
    double loss = 0;
    for (int64_t i = 0; i < count; ++i)
      loss += (param.number(i) - target) * (param.number(i) - target) / count;
    return loss;
  };
  double exact = train("f32", ""), nearest = train("bf16", "");
  double stochastic = train("bf16", "rounded by %seed, %step : tensor<i64>, tensor<i64>");
  EXPECT_LT(exact, 1e-6);
  EXPECT_GT(nearest, 2e-3); // as at the start
  EXPECT_LT(stochastic, 0x1p-7 * 0x1p-7);
  EXPECT_LT(std::abs(stochastic - exact), std::abs(nearest - exact) / 20);
}

} // namespace
