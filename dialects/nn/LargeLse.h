//===- LargeLse.h - When attention's lse loses the sum beside a mask -------===//
#ifndef SHALE_NN_LARGELSE_H
#define SHALE_NN_LARGELSE_H

namespace shale::nn {

/// Where |lse| is larger, f32 rounds away too much of it: probabilities exp(score - lse) no longer add up to 1, and are divided
/// by their sum.
inline constexpr double kLargeLse = 256;

/// Whether a mask may make the logarithm so large: scores alone are not.
template <typename AttentionT> bool mayHaveLargeLse(AttentionT op) { return op.getMask() || op.getHidden(); }

} // namespace shale::nn

#endif // SHALE_NN_LARGELSE_H
