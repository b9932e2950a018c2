//===- LargeLse.h - When a mask makes attention's lse inexact -------------===//
#ifndef SHALE_NN_LARGELSE_H
#define SHALE_NN_LARGELSE_H

namespace shale::nn {

/// The largest |lse| that f32 holds precisely enough. Above it the probabilities exp(score - lse)
/// of a row do not add up to 1, so kernels divide them by their sum.
inline constexpr double kLargeLse = 256;

/// Whether |lse| may exceed kLargeLse. Only a mask can make it so large.
template <typename AttentionT> bool mayHaveLargeLse(AttentionT op) {
  return op.getMask() || op.getHidden();
}

} // namespace shale::nn

#endif // SHALE_NN_LARGELSE_H
