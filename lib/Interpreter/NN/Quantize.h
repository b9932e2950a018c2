//===- Quantize.h - Tensors rounded to 8-bit floats -----------------------===//
#ifndef SHALE_INTERPRETER_NN_QUANTIZE_H
#define SHALE_INTERPRETER_NN_QUANTIZE_H

#include "lib/Interpreter/Tensor.h"

namespace shale::interp {

/// Returns an operand as `quantized` of nn.matmul replaces it, with elements of type `element`
/// divided by their scale. With `asF64` nothing is rounded.
Tensor quantized(const Tensor &operand, Element element, bool asF64);

/// Adds the matmul of lhs [m, k] and rhs [k, n], or of their transposes, to `result`, for each
/// matrix of a batch.
void addMatmul(const Tensor &lhs, const Tensor &rhs, bool transposeLhs, bool transposeRhs,
               Tensor &result);

} // namespace shale::interp

#endif // SHALE_INTERPRETER_NN_QUANTIZE_H
