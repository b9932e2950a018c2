// Compares rounding to 16-bit floats, and their bytes, with APFloat.
#include "lib/Interpreter/Tensor.h"
#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace shale::interp;

namespace {

const llvm::fltSemantics &semanticsOf(Element element) {
  return element == Element::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
}

llvm::APFloat rounded(Element element, double value) {
  llvm::APFloat result(value);
  bool lost;
  result.convert(semanticsOf(element), llvm::APFloat::rmNearestTiesToEven, &lost);
  return result;
}

void expectRounds(Element element, double value) {
  double wanted = rounded(element, value).convertToDouble(), got = roundFloat(element, value);
  if (std::isnan(wanted))
    EXPECT_TRUE(std::isnan(got)) << value;
  else
    EXPECT_TRUE(wanted == got && std::signbit(wanted) == std::signbit(got))
        << value << " gives " << got << ", not " << wanted;
}

class Half : public testing::TestWithParam<Element> {};

// Every number of the type, the midpoint to the next one, and the neighbours of the midpoint.
TEST_P(Half, RoundsToNearestEven) {
  Element element = GetParam();
  for (unsigned bits = 0; bits < 0xffff; ++bits) {
    double value = llvm::APFloat(semanticsOf(element), llvm::APInt(16, bits)).convertToDouble();
    double next = llvm::APFloat(semanticsOf(element), llvm::APInt(16, bits + 1)).convertToDouble();
    double between = (value + next) / 2;
    for (double each :
         {value, between, std::nextafter(between, value), std::nextafter(between, next)})
      expectRounds(element, each);
  }
  for (double each : {65519.999, 65520.0, 65536.0, 3.3895e38, 3.3962e38, 1e300, 1e-300, 5e-324,
                      -1e300, -5e-324, double(INFINITY), -double(INFINITY), double(NAN)})
    expectRounds(element, each);
}

// Stored values read back with the same bits.
TEST_P(Half, KeepsItsBytes) {
  Element element = GetParam();
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    uint16_t in = bits, out = 0;
    Tensor tensor = Tensor::fromBytes(element, {1}, reinterpret_cast<char *>(&in));
    tensor.toBytes(reinterpret_cast<char *>(&out));
    if (!std::isnan(tensor.number(0)))
      EXPECT_EQ(in, out);
    else
      EXPECT_TRUE(llvm::APFloat(semanticsOf(element), llvm::APInt(16, out)).isNaN());
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Half, testing::Values(Element::BF16, Element::F16),
                         [](const auto &type) {
                           return type.param == Element::F16 ? "f16" : "bf16";
                         });

} // namespace
