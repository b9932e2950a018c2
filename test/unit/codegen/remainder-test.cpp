//===- remainder-test.cpp - fmod in kernels of GPUs against C's -----------===//
#include "KernelRunner.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace shale;
using namespace shale::test;
using interp::Element;
using interp::Tensor;

namespace {

/// f32 values of each sign and exponent, with several fractions.
std::vector<float> values(std::initializer_list<uint32_t> fractions) {
  std::vector<float> found;
  for (uint32_t exponent = 0; exponent < 256; ++exponent)
    for (uint32_t fraction : fractions)
      for (uint32_t sign : {0u, 1u}) {
        uint32_t bits = sign << 31 | exponent << 23 | fraction;
        found.push_back(*reinterpret_cast<float *>(&bits));
      }
  return found;
}

Tensor tensorOf(const std::vector<float> &values) {
  return Tensor::fromBytes(Element::F32, {int64_t(values.size())},
                           reinterpret_cast<const char *>(values.data()));
}

} // namespace

TEST(Remainder, HasTheBitsOfFmod) {
  std::vector<float> x, y;
  for (float left : values({1, 0x7fffff}))
    for (float right : values({0, 0x133337}))
      if (std::signbit(right) == (x.size() % 7 == 0))
        x.push_back(left), y.push_back(right);
  // Quotients at and beside integers, small and large.
  for (float right : {3.0f, 0.1f, 1.9999999f, 0x1.000002p-140f})
    for (int power = 0; power < 100; power += 3)
      for (float near : {0.99999994f, 1.0f, 1.0000001f})
        x.push_back(right * std::ldexp(near, power)), y.push_back(right);
  mlir::MLIRContext context;
  prepare(context);
  std::string type = "tensor<" + std::to_string(x.size()) + "xf32>";
  auto module =
      parse(context, "func.func @f(%x: " + type + ", %y: " + type + ") -> " + type +
                         " {\n  %0 = nn.rem %x, %y : " + type + "\n  return %0 : " + type + "\n}");
  ASSERT_TRUE(module);
  RunOptions gpu;
  gpu.target = "cuda:sm_90a";
  std::vector<Tensor> found = runNative(*module, {tensorOf(x), tensorOf(y)}, gpu);
  ASSERT_EQ(found.size(), 1u);
  int64_t numbers = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    float expected = std::fmod(x[i], y[i]), got = float(found[0].number(int64_t(i)));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(got)) << x[i] << " and " << y[i];
      continue;
    }
    ++numbers;
    ASSERT_EQ(got, expected) << x[i] << " and " << y[i];
    ASSERT_EQ(std::signbit(got), std::signbit(expected)) << x[i] << " and " << y[i];
  }
  EXPECT_GT(numbers, 300000);
}
