//===- exponential-test.cpp - exp in kernels of GPUs, and long rows of losses ---===//
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

constexpr float kInfinity = std::numeric_limits<float>::infinity();

template <typename T>
Tensor tensorOf(Element element, std::vector<int64_t> shape, const std::vector<T> &values) {
  return Tensor::fromBytes(element, std::move(shape),
                           reinterpret_cast<const char *>(values.data()));
}

std::vector<Tensor> runEmulated(const std::string &text, const std::vector<Tensor> &arguments) {
  mlir::MLIRContext context;
  prepare(context);
  auto module = parse(context, text);
  EXPECT_TRUE(module);
  RunOptions gpu;
  gpu.target = "cuda:sm_90a";
  gpu.dropBarriers = false;
  return runNative(*module, arguments, gpu);
}

} // namespace

TEST(Exponential, IsWithinUnitsInTheLastPlace) {
  std::vector<float> x = {0.0f,  -0.0f,  kInfinity, -kInfinity, NAN,
                          3e38f, -3e38f, 1e-45f,    88.4f,      -87.3f};
  for (float at = -100; at < 100; at += 0.0002f)
    x.push_back(at);
  std::string type = "tensor<" + std::to_string(x.size()) + "xf32>";
  std::vector<Tensor> found =
      runEmulated("func.func @f(%x: " + type + ") -> " + type + " {\n  %0 = nn.exp %x : " + type +
                      "\n  return %0 : " + type + "\n}",
                  {tensorOf(Element::F32, {int64_t(x.size())}, x)});
  ASSERT_EQ(found.size(), 1u);
  for (size_t i = 0; i < x.size(); ++i) {
    double expected = std::exp(double(x[i])), got = found[0].number(int64_t(i));
    if (std::isnan(x[i]))
      EXPECT_TRUE(std::isnan(got));
    else if (expected < 0x1p-126)
      EXPECT_LE(got, 0x1.01p-126) << x[i];
    else if (expected >= 0x1p+127 * std::sqrt(2.0))
      EXPECT_EQ(got, kInfinity) << x[i];
    else
      EXPECT_LT(std::abs(got - expected), 2.25 * std::ldexp(1.0, std::ilogb(expected) - 23))
          << x[i];
  }
  EXPECT_EQ(found[0].number(0), 1.0);
}

/// Rows that are not kept in registers find their maximum and the sum of powers in one reading, and
/// the logit of the label without one.
TEST(Exponential, LongRowsOfLosses) {
  for (int64_t columns : {16392, 16391}) {
    constexpr int64_t kRows = 8;
    std::vector<float> x(kRows * columns);
    std::mt19937 random(7);
    for (float &value : x)
      value = std::normal_distribution<float>(0, 2)(random);
    auto row = [&](int64_t number) { return x.begin() + number * columns; };
    for (int64_t i = 0; i < columns; ++i) {
      row(1)[i] = float(i) * 0.01f;              // each chunk has a new maximum
      row(2)[i] = i == 9000 ? 3.0f : -kInfinity; // most threads see only -inf
      row(3)[i] = -kInfinity;
    }
    row(4)[columns - 1] = kInfinity;
    row(5)[17] = NAN;
    row(6)[0] = -kInfinity;
    std::vector<int64_t> labels = {columns - 1, 5, 9000, 0, 1, 2, -1, int64_t(1) << 32};
    std::string C = std::to_string(columns);
    std::string logits = "tensor<8x" + C + "xf32>";
    auto found = runEmulated(
        "func.func @f(%x: " + logits + ", %t: tensor<8xi64>, %g: tensor<f32>) -> (tensor<8xf32>, " +
            logits + ") {\n  %sum, %count, %lse = nn.cross_entropy %x, %t ignore_index = -1 : " +
            logits + ", tensor<8xi64>\n" +
            "  %d = nn.cross_entropy_grad %x, %t, %lse, %g ignore_index = -1 : " + logits +
            ", tensor<8xi64>\n  return %lse, %d : tensor<8xf32>, " + logits + "\n}",
        {tensorOf(Element::F32, {kRows, columns}, x), tensorOf(Element::I64, {kRows}, labels),
         tensorOf(Element::F32, {}, std::vector<float>{0.5f})});
    ASSERT_EQ(found.size(), 2u);
    for (int64_t r = 0; r < kRows; ++r) {
      double most = -kInfinity, sum = 0;
      for (int64_t i = 0; i < columns; ++i)
        most = std::isnan(row(r)[i]) ? NAN : std::max<double>(most, row(r)[i]);
      for (int64_t i = 0; i < columns; ++i)
        sum += std::exp(double(row(r)[i]) - most);
      double lse = std::log(sum) + most, got = found[0].number(r);
      ASSERT_EQ(std::isnan(got), std::isnan(lse)) << "row " << r;
      if (!std::isnan(lse))
        ASSERT_NEAR(got, lse, 2e-6 * std::max(1.0, std::abs(lse))) << "row " << r;
      for (int64_t i = 0; i < columns; ++i) {
        double slope = found[1].number(r * columns + i);
        double expected = 0.5 * (std::exp(double(row(r)[i]) - lse) - double(labels[r] == i));
        if (labels[r] == -1)
          ASSERT_EQ(slope, 0) << "row " << r << ", column " << i;
        else if (std::isnan(lse))
          ASSERT_TRUE(std::isnan(slope)) << "row " << r << ", column " << i;
        else
          ASSERT_NEAR(slope, expected, 2e-6) << "row " << r << ", column " << i;
      }
    }
  }
}

/// The loss itself reads the label's logit: a label that is none has logit 0, as on other targets.
TEST(Exponential, PicksTheLabelsLogit) {
  constexpr int64_t kColumns = 16400;
  std::vector<float> x(3 * kColumns, 0.0f);
  x[kColumns - 1] = 2.0f, x[kColumns] = 3.0f;
  std::vector<int64_t> labels = {kColumns - 1, 0, kColumns};
  std::string type = "tensor<3x16400xf32>";
  auto found =
      runEmulated("func.func @f(%x: " + type +
                      ", %t: tensor<3xi64>) -> (tensor<f32>, tensor<f32>) {\n"
                      "  %sum, %count, %lse = nn.cross_entropy %x, %t ignore_index = -1 : " +
                      type +
                      ", tensor<3xi64>\n"
                      "  return %sum, %count : tensor<f32>, tensor<f32>\n}",
                  {tensorOf(Element::F32, {3, kColumns}, x), tensorOf(Element::I64, {3}, labels)});
  double rest = kColumns - 1;
  double expected =
      std::log(std::exp(2.0) + rest) - 2 + std::log(std::exp(3.0) + rest) - 3 + std::log(rest + 1);
  EXPECT_NEAR(found[0].number(0), expected, 1e-5);
  EXPECT_EQ(found[1].number(0), 3);
}
