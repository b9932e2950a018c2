//===- Numbers.h - Elements as double and int64 ---------------------------===//
//
// Folding computes floats in double and integers in 64 bits, and rounds or wraps
// each result to its type.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FOLDING_NUMBERS_H
#define SHALE_FOLDING_NUMBERS_H

#include "lib/Folding/TypedBuffer.h"

namespace shale::folding {

/// Converts `count` floats at `from`, `stride` elements apart, to doubles. The value is exact.
void readNumbers(ElementKind kind, const char *from, int64_t stride, int64_t count, double *to);
/// Converts integers or booleans to 64 bits; true is 1.
void readNumbers(ElementKind kind, const char *from, int64_t stride, int64_t count, int64_t *to);

/// Rounds doubles to a float type, to nearest even. Numbers beyond its range become infinite.
void writeNumbers(ElementKind kind, const double *from, int64_t count, char *to);
/// Wraps integers to an integer type. A boolean is whether the integer is not 0.
void writeNumbers(ElementKind kind, const int64_t *from, int64_t count, char *to);

/// Truncates towards 0 and saturates to the range of an integer type; NaN gives 0. A boolean is
/// whether the number is not 0.
int64_t toInteger(ElementKind kind, double value);

/// Fills a row-major buffer with a number, rounded if its kind is a float type, and otherwise
/// converted by toInteger.
void fill(const TypedBuffer &buffer, double value);

/// Returns the elements in another type, row-major; both are float types, or neither is. None if
/// there is not enough memory.
std::optional<TypedBuffer> converted(const TypedBuffer &buffer, ElementKind kind);

} // namespace shale::folding

#endif // SHALE_FOLDING_NUMBERS_H
