// Compares conversions of elements with APFloat, and with the rules of integers.
#include "lib/Folding/Numbers.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/bit.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace shale::folding;

namespace {

const llvm::fltSemantics &semanticsOf(ElementKind kind) {
  return kind == ElementKind::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
}

double valueOf(ElementKind kind, unsigned bits) {
  return llvm::APFloat(semanticsOf(kind), llvm::APInt(16, bits)).convertToDouble();
}

void expectRounds(ElementKind kind, double value) {
  llvm::APFloat rounded(value);
  bool lost;
  rounded.convert(semanticsOf(kind), llvm::APFloat::rmNearestTiesToEven, &lost);
  uint16_t wanted = rounded.bitcastToAPInt().getZExtValue(), got = 0;
  writeNumbers(kind, &value, 1, reinterpret_cast<char *>(&got));
  EXPECT_EQ(got, wanted) << value;
}

class Half : public testing::TestWithParam<ElementKind> {};

// Every number of the type, the midpoint to the next one, and the neighbours of the midpoint.
TEST_P(Half, RoundsToNearestEven) {
  ElementKind kind = GetParam();
  for (unsigned bits = 0; bits < 0xffff; ++bits) {
    double value = valueOf(kind, bits), between = (value + valueOf(kind, bits + 1)) / 2;
    if (std::isnan(value))
      continue;
    for (double each : {value, between, std::nextafter(between, value),
                        std::nextafter(between, 2 * between - value)})
      expectRounds(kind, each);
  }
  for (double each : {65519.999, 65520.0, 65536.0, 3.3895e38, 3.3962e38, 1e300, 1e-300, 5e-324,
                      -1e300, -5e-324, double(INFINITY), -double(INFINITY), double(NAN),
                      llvm::bit_cast<double>(0x7ff0000000000001), // a signaling NaN
                      llvm::bit_cast<double>(0xfff8765432100000)})
    expectRounds(kind, each);
}

TEST_P(Half, ReadsEveryNumber) {
  ElementKind kind = GetParam();
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    uint16_t stored = bits;
    double wanted = valueOf(kind, bits), got = 0;
    readNumbers(kind, reinterpret_cast<char *>(&stored), 1, 1, &got);
    if (std::isnan(wanted))
      EXPECT_TRUE(std::isnan(got)) << bits;
    else
      EXPECT_EQ(llvm::bit_cast<uint64_t>(got), llvm::bit_cast<uint64_t>(wanted)) << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Half, testing::Values(ElementKind::BF16, ElementKind::F16),
                         [](const auto &type) {
                           return type.param == ElementKind::F16 ? "f16" : "bf16";
                         });

TEST(Integers, Saturate) {
  double infinity = INFINITY;
  EXPECT_EQ(toInteger(ElementKind::I32, 2147483646.9), 2147483646);
  EXPECT_EQ(toInteger(ElementKind::I32, 2147483647.9), INT32_MAX);
  EXPECT_EQ(toInteger(ElementKind::I32, 1e300), INT32_MAX);
  EXPECT_EQ(toInteger(ElementKind::I32, -2147483649.0), INT32_MIN);
  EXPECT_EQ(toInteger(ElementKind::I32, -infinity), INT32_MIN);
  EXPECT_EQ(toInteger(ElementKind::I64, 0x1p63), INT64_MAX);
  EXPECT_EQ(toInteger(ElementKind::I64, 0x1.fffffffffffffp62), 0x7ffffffffffffc00);
  EXPECT_EQ(toInteger(ElementKind::I64, -0x1p63), INT64_MIN);
  EXPECT_EQ(toInteger(ElementKind::I64, -infinity), INT64_MIN);
  EXPECT_EQ(toInteger(ElementKind::I64, -1.9), -1);
  EXPECT_EQ(toInteger(ElementKind::I32, NAN), 0);
  EXPECT_EQ(toInteger(ElementKind::I1, NAN), 1);
  EXPECT_EQ(toInteger(ElementKind::I1, -0.0), 0);
  EXPECT_EQ(toInteger(ElementKind::I1, 0.5), 1);
}

TEST(Integers, Wrap) {
  int64_t wide[] = {INT64_MIN, -1, int64_t(1) << 31, int64_t(1) << 32, INT64_MAX};
  int32_t narrow[5];
  char truths[5];
  writeNumbers(ElementKind::I32, wide, 5, reinterpret_cast<char *>(narrow));
  writeNumbers(ElementKind::I1, wide, 5, truths);
  int32_t wanted[] = {0, -1, INT32_MIN, 0, -1};
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(narrow[i], wanted[i]) << i;
    EXPECT_EQ(truths[i], 1) << i;
  }
}

TEST(Integers, ReadWithStrides) {
  int32_t stored[] = {1, 2, -3, 4, 5};
  int64_t read[3];
  const char *from = reinterpret_cast<const char *>(stored);
  readNumbers(ElementKind::I32, from, 2, 3, read);
  EXPECT_EQ(read[0], 1);
  EXPECT_EQ(read[1], -3);
  EXPECT_EQ(read[2], 5);
  readNumbers(ElementKind::I32, from + 2 * sizeof(int32_t), 0, 3, read);
  EXPECT_EQ(read[0], -3);
  EXPECT_EQ(read[2], -3);
}

} // namespace
