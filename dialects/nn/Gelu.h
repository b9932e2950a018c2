//===- Gelu.h - Constants of the approximation of GELU by tanh ------------===//
//
// sqrt(2/pi) and 0.044715, rounded to f32: so exporters write them and so
// PyTorch's kernels use them. Their exact values differ by 3e-8, which is seen
// where everything else is computed in f64. Interpreter, gradient and kernels
// take them from here.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_DIALECTS_NN_GELU_H
#define SHALE_DIALECTS_NN_GELU_H

namespace shale::nn {

constexpr double kGeluTanhScale = 0.7978845608028654f;
constexpr double kGeluTanhCubic = 0.044715f;

} // namespace shale::nn

#endif // SHALE_DIALECTS_NN_GELU_H
