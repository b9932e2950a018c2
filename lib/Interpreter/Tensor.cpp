//===- Tensor.cpp - A tensor value in the interpreter ---------------------===//
#include "lib/Interpreter/Tensor.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include <cmath>
#include <cstring>
#include <new>
#include <vector>

using namespace mlir;

namespace shale::interp {

std::optional<Element> elementOf(Type type) {
  if (type.isF32())
    return Element::F32;
  if (type.isF64())
    return Element::F64;
  if (type.isBF16())
    return Element::BF16;
  if (type.isF16())
    return Element::F16;
  if (isa<Float8E4M3FNType>(type))
    return Element::F8E4M3;
  if (isa<Float8E5M2Type>(type))
    return Element::F8E5M2;
  if (type.isInteger(64))
    return Element::I64;
  if (type.isInteger(32))
    return Element::I32;
  if (type.isInteger(1))
    return Element::I1;
  return std::nullopt;
}

Type typeOf(MLIRContext *context, Element element) {
  switch (element) {
  case Element::F32:
    return Float32Type::get(context);
  case Element::F64:
    return Float64Type::get(context);
  case Element::BF16:
    return BFloat16Type::get(context);
  case Element::F16:
    return Float16Type::get(context);
  case Element::F8E4M3:
    return Float8E4M3FNType::get(context);
  case Element::F8E5M2:
    return Float8E5M2Type::get(context);
  case Element::I64:
    return IntegerType::get(context, 64);
  case Element::I32:
    return IntegerType::get(context, 32);
  case Element::I1:
    return IntegerType::get(context, 1);
  }
  return {};
}

bool isFloat(Element element) { return element <= Element::F8E5M2; }

int64_t bytesOf(Element element) {
  switch (element) {
  case Element::F64:
  case Element::I64:
    return 8;
  case Element::F32:
  case Element::I32:
    return 4;
  case Element::BF16:
  case Element::F16:
    return 2;
  case Element::F8E4M3:
  case Element::F8E5M2:
  case Element::I1:
    return 1;
  }
  return 8;
}

static llvm::APFloat to16Bits(Element element, double value) {
  llvm::APFloat result(value);
  bool lost;
  result.convert(element == Element::F16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat(),
                 llvm::APFloat::rmNearestTiesToEven, &lost);
  return result;
}

/// Rounds to the nearest value of a 16-bit float type, ties to even. Values from its
/// smallest normal number to its largest number are rounded by integer arithmetic.
/// All other values are rare and take the slow path through APFloat.
static double roundTo16Bits(Element element, double value) {
  bool f16 = element == Element::F16;
  double smallest = f16 ? 0x1p-14 : 0x1p-126, largest = f16 ? 0x1.ffcp15 : 0x1.fep127;
  double size = std::fabs(value);
  if (size == 0)
    return value;
  if (!(size >= smallest && size <= largest))
    return to16Bits(element, value).convertToDouble();
  int dropped = 52 - (f16 ? 10 : 7);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits += ((bits >> dropped) & 1) + (uint64_t(1) << (dropped - 1)) - 1;
  bits &= ~((uint64_t(1) << dropped) - 1);
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

/// Returns the bits of a number as a 16-bit float.
static uint16_t bits16(Element element, double value) {
  float single = static_cast<float>(value);
  if (element == Element::F16 || !(single == value))
    return to16Bits(element, value).bitcastToAPInt().getZExtValue();
  uint32_t bits;
  std::memcpy(&bits, &single, sizeof(bits));
  return bits & 0xffff ? to16Bits(element, value).bitcastToAPInt().getZExtValue() : bits >> 16;
}

/// Returns a table of the values of a 16-bit float type, indexed by their bits.
static const double *values16(Element element) {
  auto make = [](const llvm::fltSemantics &semantics) {
    std::vector<double> values(1 << 16);
    for (size_t bits = 0; bits < values.size(); ++bits)
      values[bits] = llvm::APFloat(semantics, llvm::APInt(16, bits)).convertToDouble();
    return values;
  };
  static const std::vector<double> f16 = make(llvm::APFloat::IEEEhalf()),
                                   bf16 = make(llvm::APFloat::BFloat());
  return element == Element::F16 ? f16.data() : bf16.data();
}

static const llvm::fltSemantics &semantics8(Element element) {
  return element == Element::F8E4M3 ? llvm::APFloat::Float8E4M3FN() : llvm::APFloat::Float8E5M2();
}

/// Rounds to the nearest multiple of the distance between numbers of an 8-bit float type near the
/// value.
static double roundTo8Bits(Element element, double value) {
  bool fine = element == Element::F8E4M3;
  double largest = fine ? 448 : 57344;
  if (value == 0 || std::isnan(value))
    return value;
  int exponent = std::max(std::ilogb(value), fine ? -6 : -14) - (fine ? 3 : 2);
  double size = std::ldexp(std::nearbyint(std::ldexp(std::fabs(value), -exponent)), exponent);
  return std::copysign(std::isfinite(value) ? std::min(size, largest) : largest, value);
}

double roundFloat(Element element, double value) {
  switch (element) {
  case Element::F32:
    return static_cast<float>(value);
  case Element::BF16:
  case Element::F16:
    return roundTo16Bits(element, value);
  case Element::F8E4M3:
  case Element::F8E5M2:
    return roundTo8Bits(element, value);
  default:
    return value;
  }
}

int64_t wrapInt(Element element, int64_t value) {
  if (element == Element::I32)
    return static_cast<int32_t>(static_cast<uint32_t>(value));
  if (element == Element::I1)
    return value != 0;
  return value;
}

Tensor::Tensor(Element element, ArrayRef<int64_t> shape) : elementKind(element), dims(shape) {
  count = 1;
  bool overflows = false;
  for (int64_t size : shape)
    overflows |= __builtin_mul_overflow(count, size, &count);
  int64_t bytes;
  if (overflows || __builtin_mul_overflow(count ? count : 1, 8, &bytes))
    throw std::bad_alloc();
  storage = std::shared_ptr<void>(::operator new(bytes), [](void *p) { ::operator delete(p); });
}

Tensor Tensor::scalar(Element element, double value) {
  Tensor result(element, {});
  result.setNumber(0, value);
  return result;
}

Tensor Tensor::token(std::vector<Tensor> pending) {
  Tensor result;
  result.pendingTensors = std::make_shared<std::vector<Tensor>>(std::move(pending));
  return result;
}

SmallVector<int64_t> Tensor::strides() const {
  SmallVector<int64_t> result(dims.size(), 1);
  for (int64_t d = rank() - 2; d >= 0; --d)
    result[d] = result[d + 1] * dims[d + 1];
  return result;
}

void *Tensor::unshare() {
  if (storage.use_count() > 1) {
    Tensor copy(elementKind, dims);
    std::memcpy(copy.storage.get(), storage.get(), count * 8);
    storage = std::move(copy.storage);
  }
  return storage.get();
}

void Tensor::setNumber(int64_t i, double value) {
  if (isFloat())
    mutableFloats()[i] = value;
  else
    mutableInts()[i] = static_cast<int64_t>(value);
}

void Tensor::fill(double value) {
  if (isFloat())
    std::fill_n(mutableFloats(), count, value);
  else
    std::fill_n(mutableInts(), count, static_cast<int64_t>(value));
}

Tensor Tensor::reshaped(ArrayRef<int64_t> shape) const {
  Tensor result = *this;
  result.dims.assign(shape.begin(), shape.end());
  return result;
}

Tensor Tensor::slice(int64_t dim, int64_t begin, int64_t length) const {
  SmallVector<int64_t> shape(dims.begin(), dims.end());
  shape[dim] = length;
  Tensor result(elementKind, shape);
  SmallVector<int64_t> steps = strides();
  const Cell *from = cells();
  Cell *to = result.mutableCells();
  walk(shape, steps, begin * steps[dim], [&](int64_t i, int64_t offset) { to[i] = from[offset]; });
  return result;
}

Tensor Tensor::rounded(Element to) const {
  Tensor result(to, dims);
  std::memcpy(result.mutableFloats(), floats(), count * sizeof(double));
  result.roundToElement();
  return result;
}

void Tensor::roundToElement() {
  if (elementKind == Element::F64 || elementKind == Element::I64)
    return;
  if (isFloat()) {
    double *values = mutableFloats();
    if (elementKind == Element::F32)
      for (int64_t i = 0; i < count; ++i)
        values[i] = static_cast<float>(values[i]);
    else
      for (int64_t i = 0; i < count; ++i)
        values[i] = roundFloat(elementKind, values[i]);
    return;
  }
  int64_t *values = mutableInts();
  for (int64_t i = 0; i < count; ++i)
    values[i] = wrapInt(elementKind, values[i]);
}

template <typename T, typename From>
static void store(const From *from, int64_t count, char *bytes) {
  for (int64_t i = 0; i < count; ++i) {
    T value = static_cast<T>(from[i]);
    std::memcpy(bytes + i * sizeof(T), &value, sizeof(T));
  }
}

template <typename T, typename To> static void load(To *to, int64_t count, const char *bytes) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    to[i] = static_cast<To>(value);
  }
}

void Tensor::toBytes(char *bytes) const {
  switch (elementKind) {
  case Element::F32:
    return store<float>(floats(), count, bytes);
  case Element::F64:
    return store<double>(floats(), count, bytes);
  case Element::BF16:
  case Element::F16:
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits = bits16(elementKind, floats()[i]);
      std::memcpy(bytes + 2 * i, &bits, 2);
    }
    return;
  case Element::F8E4M3:
  case Element::F8E5M2:
    for (int64_t i = 0; i < count; ++i) {
      llvm::APFloat value(floats()[i]);
      bool lost;
      value.convert(semantics8(elementKind), llvm::APFloat::rmNearestTiesToEven, &lost);
      bytes[i] = static_cast<char>(value.bitcastToAPInt().getZExtValue());
    }
    return;
  case Element::I64:
    return store<int64_t>(ints(), count, bytes);
  case Element::I32:
    return store<int32_t>(ints(), count, bytes);
  case Element::I1:
    return store<uint8_t>(ints(), count, bytes);
  }
}

Tensor Tensor::fromBytes(Element element, ArrayRef<int64_t> shape, const char *bytes) {
  Tensor result(element, shape);
  int64_t count = result.size();
  switch (element) {
  case Element::F32:
    load<float>(result.mutableFloats(), count, bytes);
    break;
  case Element::F64:
    load<double>(result.mutableFloats(), count, bytes);
    break;
  case Element::BF16:
  case Element::F16: {
    double *to = result.mutableFloats();
    const double *values = values16(element);
    for (int64_t i = 0; i < count; ++i) {
      uint16_t bits;
      std::memcpy(&bits, bytes + 2 * i, 2);
      to[i] = values[bits];
    }
    break;
  }
  case Element::F8E4M3:
  case Element::F8E5M2: {
    double *to = result.mutableFloats();
    for (int64_t i = 0; i < count; ++i)
      to[i] =
          llvm::APFloat(semantics8(element), llvm::APInt(8, uint8_t(bytes[i]))).convertToDouble();
    break;
  }
  case Element::I64:
    load<int64_t>(result.mutableInts(), count, bytes);
    break;
  case Element::I32:
    load<int32_t>(result.mutableInts(), count, bytes);
    break;
  case Element::I1:
    load<uint8_t>(result.mutableInts(), count, bytes);
    result.roundToElement();
    break;
  }
  return result;
}

Tensor Tensor::fromAttr(ElementsAttr attr) {
  auto dense = dyn_cast<DenseElementsAttr>(attr);
  auto element = elementOf(attr.getElementType());
  if (!dense || !element)
    return {};
  Tensor result(*element, dense.getType().getShape());
  if (result.isFloat()) {
    double *to = result.mutableFloats();
    if (dense.isSplat()) {
      result.fill(dense.getSplatValue<APFloat>().convertToDouble());
    } else if (*element == Element::F32) {
      for (auto [i, value] : llvm::enumerate(dense.getValues<float>()))
        to[i] = value;
    } else {
      for (auto [i, value] : llvm::enumerate(dense.getValues<APFloat>()))
        to[i] = value.convertToDouble();
    }
    return result;
  }
  int64_t *to = result.mutableInts();
  auto number = [&](const APInt &value) {
    return *element == Element::I1 ? int64_t(value.getZExtValue()) : value.getSExtValue();
  };
  if (dense.isSplat())
    std::fill_n(to, result.size(), number(dense.getSplatValue<APInt>()));
  else if (auto values = dense.tryGetValues<int64_t>(); succeeded(values))
    std::copy(values->begin(), values->end(), to);
  else
    for (auto [i, value] : llvm::enumerate(dense.getValues<APInt>()))
      to[i] = number(value);
  return result;
}

DenseElementsAttr Tensor::toAttr(MLIRContext *context) const {
  auto type = RankedTensorType::get(dims, typeOf(context, elementKind));
  bool splat = count > 1;
  for (int64_t i = 1; i < count && splat; ++i)
    splat = cells()[i] == cells()[0];
  Tensor first;
  const Tensor *source = this;
  if (splat) {
    first = Tensor(elementKind, {});
    *first.mutableCells() = cells()[0];
    source = &first;
  }
  if (elementKind == Element::I1) {
    SmallVector<bool> values(source->count);
    for (int64_t i = 0; i < source->count; ++i)
      values[i] = source->ints()[i];
    return DenseElementsAttr::get(type, ArrayRef<bool>(values));
  }
  std::vector<char> bytes(source->byteSize());
  source->toBytes(bytes.data());
  return DenseElementsAttr::getFromRawBuffer(type, bytes);
}

std::string Tensor::shapeString() const {
  static const char *names[] = {"f32",    "f64", "bf16", "f16", "f8E4M3FN",
                                "f8E5M2", "i64", "i32",  "i1"};
  std::string result;
  for (int64_t size : dims)
    result += std::to_string(size) + "x";
  return result + names[static_cast<int>(elementKind)];
}

} // namespace shale::interp
