//===- LargeLse.h - When attention's lse loses the sum beside a mask -------===//
#ifndef SHALE_NN_LARGELSE_H
#define SHALE_NN_LARGELSE_H

namespace shale::nn {

/// Of a larger magnitude an f32 logarithm of a row's sum of exponentials is off by so much that probabilities computed from it
/// are divided by their sum.
inline constexpr double kLargeLse = 256;

/// Whether a mask may make the logarithm so large: scores alone are not.
template <typename AttentionT> bool mayHaveLargeLse(AttentionT op) { return op.getMask() || op.getHidden(); }

} // namespace shale::nn

#endif // SHALE_NN_LARGELSE_H
