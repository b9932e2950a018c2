//===- Numbers.cpp - Elements as double and int64 -------------------------===//
#include "lib/Folding/Numbers.h"
#include "lib/Folding/StridedRows.h"
#include "llvm/ADT/bit.h"
#include "llvm/Support/ErrorHandling.h"
#include <cmath>
#include <cstring>
#include <limits>

namespace shale::folding {

namespace {

/// A 16-bit float type: `fraction` bits of fraction below the exponent, and the sign on top.
struct Format16 {
  int fraction;
  int bias() const { return (1 << (14 - fraction)) - 1; }
  uint16_t infinity() const { return 0x7fff & ~((1 << fraction) - 1); }
};
constexpr Format16 kHalf{10}, kBFloat{7};

constexpr int kDoubleFraction = 52, kDoubleBias = 1023;
constexpr uint64_t kDoubleInfinity = uint64_t(0x7ff) << kDoubleFraction;

double widen(Format16 format, uint16_t bits) {
  uint64_t sign = uint64_t(bits >> 15) << 63;
  int exponent = (bits & 0x7fff) >> format.fraction;
  uint64_t fraction = bits & ((1 << format.fraction) - 1);
  if (exponent == 0) { // zeros and subnormal numbers: multiples of the smallest number
    uint64_t smallest = uint64_t(kDoubleBias + 1 - format.bias() - format.fraction)
                        << kDoubleFraction;
    double size = double(fraction) * llvm::bit_cast<double>(smallest);
    return sign ? -size : size;
  }
  uint64_t wide = (bits & 0x7fff) >= format.infinity()
                      ? kDoubleInfinity
                      : uint64_t(exponent - format.bias() + kDoubleBias) << kDoubleFraction;
  return llvm::bit_cast<double>(sign | wide | fraction << (kDoubleFraction - format.fraction));
}

/// Rounds to nearest even. NaN keeps its sign and its first bits, and is quiet.
uint16_t narrow(Format16 format, double value) {
  uint64_t bits = llvm::bit_cast<uint64_t>(value);
  uint16_t sign = (bits >> 63) << 15;
  bits &= ~(uint64_t(1) << 63);
  int drop = kDoubleFraction - format.fraction;
  if (bits >= kDoubleInfinity) {
    uint16_t fraction = (bits >> drop) & ((1 << format.fraction) - 1);
    uint16_t quiet = bits > kDoubleInfinity ? 1 << (format.fraction - 1) : 0;
    return sign | format.infinity() | fraction | quiet;
  }
  int exponent = int(bits >> kDoubleFraction) - kDoubleBias + format.bias();
  uint64_t significand =
      (bits & ((uint64_t(1) << kDoubleFraction) - 1)) | (uint64_t(1) << kDoubleFraction);
  if (exponent < 1) { // subnormal: the significand loses more bits
    drop += 1 - exponent;
    exponent = 1;
    if (drop > kDoubleFraction + 1)
      return sign; // less than half of the smallest number
  }
  uint64_t rounded = significand + (uint64_t(1) << (drop - 1)) - 1 + ((significand >> drop) & 1);
  // The first bit of a normal significand, and a carry out of rounding, add to the exponent.
  uint64_t result = (uint64_t(exponent - 1) << format.fraction) + (rounded >> drop);
  return sign | uint16_t(std::min<uint64_t>(result, format.infinity()));
}

template <typename Stored, typename Number, typename Fn>
void readAs(const char *from, int64_t stride, int64_t count, Number *to, Fn convert) {
  auto read = [&](int64_t step) {
    for (int64_t i = 0; i < count; ++i) {
      Stored stored;
      std::memcpy(&stored, from + i * step, sizeof(Stored));
      to[i] = convert(stored);
    }
  };
  if (stride == 1)
    read(sizeof(Stored)); // a constant step, so that the loop is vectorized
  else if (stride == 0 && count > 0) {
    Stored stored;
    std::memcpy(&stored, from, sizeof(Stored));
    std::fill_n(to, count, Number(convert(stored)));
  } else
    read(stride * int64_t(sizeof(Stored)));
}

template <typename Stored, typename Number, typename Fn>
void writeAs(const Number *from, int64_t count, char *to, Fn convert) {
  for (int64_t i = 0; i < count; ++i) {
    Stored stored = convert(from[i]);
    std::memcpy(to + i * sizeof(Stored), &stored, sizeof(Stored));
  }
}

} // namespace

void readNumbers(ElementKind kind, const char *from, int64_t stride, int64_t count, double *to) {
  auto same = [](auto x) { return double(x); };
  switch (kind) {
  case ElementKind::F64:
    return readAs<double>(from, stride, count, to, same);
  case ElementKind::F32:
    return readAs<float>(from, stride, count, to, same);
  case ElementKind::F16:
    return readAs<uint16_t>(from, stride, count, to, [](auto x) { return widen(kHalf, x); });
  case ElementKind::BF16:
    return readAs<uint16_t>(from, stride, count, to, [](auto x) { return widen(kBFloat, x); });
  default:
    llvm_unreachable("integers are not read as doubles");
  }
}

void readNumbers(ElementKind kind, const char *from, int64_t stride, int64_t count, int64_t *to) {
  auto same = [](auto x) { return int64_t(x); };
  switch (kind) {
  case ElementKind::I64:
    return readAs<int64_t>(from, stride, count, to, same);
  case ElementKind::I32:
    return readAs<int32_t>(from, stride, count, to, same);
  case ElementKind::I1:
    return readAs<uint8_t>(from, stride, count, to, same);
  default:
    llvm_unreachable("floats are not read as integers");
  }
}

void writeNumbers(ElementKind kind, const double *from, int64_t count, char *to) {
  switch (kind) {
  case ElementKind::F64:
    return writeAs<double>(from, count, to, [](double x) { return x; });
  case ElementKind::F32:
    return writeAs<float>(from, count, to, [](double x) { return float(x); });
  case ElementKind::F16:
    return writeAs<uint16_t>(from, count, to, [](double x) { return narrow(kHalf, x); });
  case ElementKind::BF16:
    return writeAs<uint16_t>(from, count, to, [](double x) { return narrow(kBFloat, x); });
  default:
    llvm_unreachable("doubles are not written as integers");
  }
}

void writeNumbers(ElementKind kind, const int64_t *from, int64_t count, char *to) {
  switch (kind) {
  case ElementKind::I64:
    return writeAs<int64_t>(from, count, to, [](int64_t x) { return x; });
  case ElementKind::I32:
    return writeAs<uint32_t>(from, count, to, [](int64_t x) { return uint32_t(x); });
  case ElementKind::I1:
    return writeAs<uint8_t>(from, count, to, [](int64_t x) { return uint8_t(x != 0); });
  default:
    llvm_unreachable("integers are not written as floats");
  }
}

template <typename Integer> static int64_t saturated(double value) {
  using Limits = std::numeric_limits<Integer>;
  if (value < double(Limits::min()))
    return Limits::min();
  if (value >= -double(Limits::min())) // one more than the largest, which a double may not have
    return Limits::max();
  return int64_t(value);
}

int64_t toInteger(ElementKind kind, double value) {
  if (kind == ElementKind::I1)
    return value != 0;
  if (std::isnan(value))
    return 0;
  return kind == ElementKind::I32 ? saturated<int32_t>(value) : saturated<int64_t>(value);
}

void fill(const TypedBuffer &buffer, double value) {
  ElementKind kind = buffer.kind();
  int64_t width = widthOf(kind), integer = isFloat(kind) ? 0 : toInteger(kind, value);
  char element[sizeof(int64_t)];
  if (isFloat(kind))
    writeNumbers(kind, &value, 1, element);
  else
    writeNumbers(kind, &integer, 1, element);
  char *to = buffer.mutableData();
  for (int64_t i = 0, e = buffer.size(); i < e; ++i)
    std::memcpy(to + i * width, element, width);
}

/// Converts the elements in pieces, through the wide type `Number`.
template <typename Number> static void convert(const TypedBuffer &from, const TypedBuffer &to) {
  constexpr int64_t kPiece = 512;
  Number piece[kPiece];
  int64_t width = widthOf(from.kind());
  char *next = to.mutableData();
  StridedRows<1>(from.shape(), {from.strides()})
      .forEach([&](const auto &offsets, const auto &strides, int64_t count) {
        for (int64_t begin = 0; begin < count; begin += kPiece) {
          int64_t size = std::min(kPiece, count - begin);
          readNumbers(from.kind(), from.data() + (offsets[0] + begin * strides[0]) * width,
                      strides[0], size, piece);
          writeNumbers(to.kind(), piece, size, next);
          next += size * widthOf(to.kind());
        }
      });
}

std::optional<TypedBuffer> converted(const TypedBuffer &buffer, ElementKind kind) {
  assert(isFloat(buffer.kind()) == isFloat(kind) && "floats or integers");
  if (buffer.kind() == kind)
    return buffer.rowMajor();
  std::optional<TypedBuffer> result = TypedBuffer::allocate(kind, buffer.shape());
  if (!result)
    return std::nullopt;
  if (isFloat(kind))
    convert<double>(buffer, *result);
  else
    convert<int64_t>(buffer, *result);
  return result;
}

} // namespace shale::folding
