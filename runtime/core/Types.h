// Element types of files and of the state, and conversion between them.
#ifndef SHALE_RUNTIME_CORE_TYPES_H
#define SHALE_RUNTIME_CORE_TYPES_H

#include "shale/Runtime.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace shale::rt {

/// The first ten have the values of ShaleType.
enum class Dtype : int32_t {
  F32 = SHALE_F32,
  F64 = SHALE_F64,
  BF16 = SHALE_BF16,
  F16 = SHALE_F16,
  I64 = SHALE_I64,
  I32 = SHALE_I32,
  Bool = SHALE_BOOL,
  F8E4M3 = SHALE_F8_E4M3,
  F8E5M2 = SHALE_F8_E5M2,
  Int8Blocks = SHALE_INT8_BLOCKS,
  I16,
  I8,
  U8,
  U16,
  U32,
  U64
};

int64_t sizeOf(Dtype type);
/// Whether a ShaleType is that of the words of an encoding.
inline bool isEncoded(int32_t type) { return type == SHALE_INT8_BLOCKS; }
bool isInteger(Dtype type);

/// Convert between a type and its name in safetensors files; false for an unsupported type, and for
/// 8-bit floats, whose numbers mean nothing without the scales that other tensors hold.
const char *nameOf(Dtype type);
bool dtypeNamed(const std::string &name, Dtype &type);

/// Converts count elements; equal types are copied. Floats round to nearest
/// even; a float is truncated towards zero into an integer.
void convert(Dtype from, const void *source, Dtype to, void *target, int64_t count);

/// Element `index` of an integer array, as int64 (U64 wraps).
int64_t integerAt(Dtype type, const void *data, int64_t index);

float bf16ToFloat(uint16_t bits);
uint16_t floatToBf16(float value);
float f16ToFloat(uint16_t bits);
uint16_t floatToF16(float value);
/// Returns the value of an 8-bit float: type F8E4M3 or F8E5M2.
float f8ToFloat(Dtype type, uint8_t bits);
inline bool is8BitFloat(Dtype type) { return type == Dtype::F8E4M3 || type == Dtype::F8E5M2; }

/// Returns the name of a state's role: param, loss_scale or the name of the optimizer's slot.
const char *roleName(const ShaleProgram &program, int32_t role);

} // namespace shale::rt

#endif
