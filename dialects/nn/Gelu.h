//===- Gelu.h - Constants of the approximation of GELU by tanh ------------===//
//
// sqrt(2/pi) and 0.044715, rounded to f32 as in exported models and in PyTorch's
// kernels. The exact values differ by 3e-8, which is visible when everything else
// is computed in f64. Interpreter, gradient and kernels use these constants.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_DIALECTS_NN_GELU_H
#define SHALE_DIALECTS_NN_GELU_H

namespace shale::nn {

constexpr double kGeluTanhScale = 0.7978845608028654f;
constexpr double kGeluTanhCubic = 0.044715f;

} // namespace shale::nn

#endif // SHALE_DIALECTS_NN_GELU_H
