// Element types: sizes, names, conversions.
#include "runtime/core/Types.h"

#include <cstring>

namespace shale::rt {

namespace {
struct TypeInfo {
  Dtype type;
  const char *name;
  int64_t size;
  bool integer;
};
constexpr TypeInfo infos[] = {
    {Dtype::F32, "F32", 4, false},        {Dtype::F64, "F64", 8, false},
    {Dtype::BF16, "BF16", 2, false},      {Dtype::F16, "F16", 2, false},
    {Dtype::I64, "I64", 8, true},         {Dtype::I32, "I32", 4, true},
    {Dtype::Bool, "BOOL", 1, true},       {Dtype::F8E4M3, "F8_E4M3", 1, false},
    {Dtype::F8E5M2, "F8_E5M2", 1, false}, {Dtype::Int8Blocks, "", 4, false}, // in no file
    {Dtype::I16, "I16", 2, true},         {Dtype::I8, "I8", 1, true},
    {Dtype::U8, "U8", 1, true},           {Dtype::U16, "U16", 2, true},
    {Dtype::U32, "U32", 4, true},         {Dtype::U64, "U64", 8, true}};

constexpr bool areInOrder() {
  int number = 0;
  for (const TypeInfo &info : infos)
    if (static_cast<int>(info.type) != number++)
      return false;
  return true;
}
static_assert(areInOrder(), "infoOf() finds a row by its number");

const TypeInfo &infoOf(Dtype type) { return infos[static_cast<int>(type)]; }

template <typename T> T read(const void *data, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const char *>(data) + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T> void write(void *data, int64_t index, T value) {
  std::memcpy(static_cast<char *>(data) + index * sizeof(T), &value, sizeof(T));
}

double floatAt(Dtype type, const void *data, int64_t index) {
  switch (type) {
  case Dtype::F32:
    return read<float>(data, index);
  case Dtype::F64:
    return read<double>(data, index);
  case Dtype::BF16:
    return bf16ToFloat(read<uint16_t>(data, index));
  case Dtype::F16:
    return f16ToFloat(read<uint16_t>(data, index));
  case Dtype::F8E4M3:
  case Dtype::F8E5M2:
    return f8ToFloat(type, read<uint8_t>(data, index));
  case Dtype::U64:
    return static_cast<double>(read<uint64_t>(data, index));
  default:
    return static_cast<double>(integerAt(type, data, index));
  }
}

/// Converts to f32 by rounding to odd: rounding the result again gives the same as
/// rounding `value` once. An inexact result gets an odd last bit.
float narrowed(double value) {
  float near = static_cast<float>(value);
  if (static_cast<double>(near) == value || !(near - near == 0))
    return near; // exact, or not finite
  uint32_t bits;
  std::memcpy(&bits, &near, 4);
  bool away = (static_cast<double>(near) > value) == (value > 0);
  if (away)
    --bits; // now towards zero
  bits |= 1;
  std::memcpy(&near, &bits, 4);
  return near;
}

void putFloat(Dtype type, void *data, int64_t index, double value) {
  switch (type) {
  case Dtype::F32:
    return write(data, index, static_cast<float>(value));
  case Dtype::F64:
    return write(data, index, value);
  case Dtype::BF16:
    return write(data, index, floatToBf16(narrowed(value)));
  default:
    return write(data, index, floatToF16(narrowed(value)));
  }
}

void putInteger(Dtype type, void *data, int64_t index, int64_t value) {
  switch (sizeOf(type)) {
  case 8:
    return write(data, index, value);
  case 4:
    return write(data, index, static_cast<int32_t>(value));
  case 2:
    return write(data, index, static_cast<int16_t>(value));
  default:
    return write(data, index, static_cast<int8_t>(type == Dtype::Bool ? value != 0 : value));
  }
}
} // namespace

int64_t sizeOf(Dtype type) { return infoOf(type).size; }
bool isInteger(Dtype type) { return infoOf(type).integer; }
const char *nameOf(Dtype type) { return infoOf(type).name; }

bool dtypeNamed(const std::string &name, Dtype &type) {
  for (const TypeInfo &info : infos)
    if (name == info.name && !is8BitFloat(info.type) && !name.empty()) {
      type = info.type;
      return true;
    }
  return false;
}

int64_t integerAt(Dtype type, const void *data, int64_t index) {
  switch (type) {
  case Dtype::I64:
  case Dtype::U64:
    return read<int64_t>(data, index);
  case Dtype::I32:
    return read<int32_t>(data, index);
  case Dtype::U32:
    return read<uint32_t>(data, index);
  case Dtype::I16:
    return read<int16_t>(data, index);
  case Dtype::U16:
    return read<uint16_t>(data, index);
  case Dtype::I8:
    return read<int8_t>(data, index);
  case Dtype::U8:
  case Dtype::Bool:
    return read<uint8_t>(data, index);
  default:
    return static_cast<int64_t>(floatAt(type, data, index));
  }
}

void convert(Dtype from, const void *source, Dtype to, void *target, int64_t count) {
  if (from == to) {
    std::memcpy(target, source, count * sizeOf(from));
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    if (!isInteger(to))
      putFloat(to, target, i, floatAt(from, source, i));
    else
      putInteger(to, target, i, integerAt(from, source, i));
  }
}

float bf16ToFloat(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

uint16_t floatToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return static_cast<uint16_t>((bits >> 16) | 0x40); // keep a NaN a NaN
  bits += 0x7fffu + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

float f16ToFloat(uint16_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f, fraction = bits & 0x3ff;
  uint32_t wide;
  if (exponent == 0x1f) {
    wide = sign | 0x7f800000u | (fraction << 13);
  } else if (exponent != 0) {
    wide = sign | ((exponent + 112) << 23) | (fraction << 13);
  } else {
    // Subnormal: fraction * 2^-24, exact in f32.
    float value = static_cast<float>(fraction) * 5.9604644775390625e-8f;
    return sign ? -value : value;
  }
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

uint16_t floatToF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  bits &= 0x7fffffffu;
  if (bits > 0x7f800000u)
    return sign | 0x7e00;
  if (bits >= 0x477ff000u) // rounds to 65536 or more
    return sign | 0x7c00;
  if (bits < 0x38800000u) { // subnormal: let f32 addition round at 2^-24
    float magnitude;
    std::memcpy(&magnitude, &bits, 4);
    magnitude += 0.5f;
    std::memcpy(&bits, &magnitude, 4);
    return sign | static_cast<uint16_t>(bits - 0x3f000000u);
  }
  bits += 0xfffu + ((bits >> 13) & 1);
  return sign | static_cast<uint16_t>((bits - 0x38000000u) >> 13);
}

float f8ToFloat(Dtype type, uint8_t bits) {
  // e5m2 is the upper half of f16. e4m3 has one bit of exponent less, at the top, and one bit of
  // fraction more. Its only numbers that are not finite are NaN.
  if (type == Dtype::F8E5M2)
    return f16ToFloat(static_cast<uint16_t>(bits << 8));
  if ((bits & 0x7f) == 0x7f)
    return f16ToFloat(0x7e00);
  uint16_t half = static_cast<uint16_t>((bits & 0x80) << 8 | (bits & 0x7f) << 7);
  return f16ToFloat(half) * 256; // the biases are 15 and 7
}

const char *roleName(const ShaleProgram &program, int32_t role) {
  return role == SHALE_ROLE_PARAM        ? "param"
         : role == SHALE_ROLE_LOSS_SCALE ? "loss_scale"
         : role == SHALE_ROLE_RESIDUAL   ? "residual"
                                         : program.slots[role - SHALE_ROLE_SLOT];
}

} // namespace shale::rt
