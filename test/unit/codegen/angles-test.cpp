//===- angles-test.cpp - Sine and cosine in kernels -------------------------------===//
#include "KernelRunner.h"
#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace shale;
using namespace shale::test;
using interp::Element;
using interp::Tensor;

namespace {

/// Sines and cosines of x in kernels of a target.
std::vector<Tensor> sinesOf(const char *target, const std::vector<float> &x) {
  mlir::MLIRContext context;
  prepare(context);
  std::string type = "tensor<" + std::to_string(x.size()) + "xf32>";
  auto module =
      parse(context, "func.func @f(%x: " + type + ") -> (" + type + ", " + type +
                         ") {\n  %0 = nn.sin %x : " + type + "\n  %1 = nn.cos %x : " + type +
                         "\n  return %0, %1 : " + type + ", " + type + "\n}");
  EXPECT_TRUE(module);
  RunOptions options;
  options.target = target;
  options.dropBarriers = false;
  return runNative(*module,
                   {Tensor::fromBytes(Element::F32, {int64_t(x.size())},
                                      reinterpret_cast<const char *>(x.data()))},
                   options);
}

/// Numbers from 1e-8 to 1e15 of both signs, the floats around multiples of pi / 2, where results or
/// their last digits vanish, and the signs of zero.
std::vector<float> angles() {
  std::vector<float> x = {0.0f, -0.0f, 1e-45f, -1e-30f, 1e15f, -1e15f};
  std::mt19937 random(3);
  for (int i = 0; i < 200000; ++i)
    x.push_back(std::ldexp(1.0f, -27) *
                std::pow(10.0f, std::uniform_real_distribution<float>(0, 22.5f)(random)));
  for (double quarters = 1; quarters < 600000; quarters = std::ceil(quarters * 1.001)) {
    float near = float(quarters * M_PI_2);
    for (float at : {near, std::nextafter(near, 0.0f), std::nextafter(near, 1e20f)})
      x.push_back(at);
  }
  for (size_t i = 0, n = x.size(); i < n; ++i)
    x.push_back(-x[i]);
  return x;
}

void expectClose(double got, double expected, float x, const char *what) {
  // The C library's f64 is an oracle of 53 bits.
  double unit = std::ldexp(1.0, std::max(-126, std::ilogb(expected)) - 23);
  EXPECT_LE(std::abs(got - expected), 2 * unit) << what << " of " << x;
}

} // namespace

TEST(Angles, AreWithinUnitsInTheLastPlace) {
  std::vector<float> x = angles();
  for (const char *target : {"cpu:native", "cuda:sm_90a"}) {
    std::vector<Tensor> found = sinesOf(target, x);
    ASSERT_EQ(found.size(), 2u);
    for (size_t i = 0; i < x.size() && !HasFailure(); ++i) {
      if (std::abs(x[i]) > 1e15f)
        continue;
      expectClose(found[0].number(i), std::sin(double(x[i])), x[i], "sine");
      expectClose(found[1].number(i), std::cos(double(x[i])), x[i], "cosine");
    }
    EXPECT_TRUE(std::signbit(found[0].number(1))) << target << ": the sine of -0";
    EXPECT_FALSE(std::signbit(found[0].number(0))) << target << ": the sine of 0";
  }
}

TEST(Angles, TooLargeOnesAreNaN) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> x = {1.1e15f, -1e20f, 3e38f, kInfinity, -kInfinity, NAN, 1.0f};
  for (const char *target : {"cpu:native", "cuda:sm_90a"})
    for (const Tensor &found : sinesOf(target, x))
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_EQ(std::isnan(found.number(i)), i + 1 < x.size()) << target << " of " << x[i];
}
