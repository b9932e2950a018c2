//===- Blocks.h - Moments of 8 bits per element, in blocks ----------------===//
//
// The parts of nn.adamw8bit's kernel that every target emits. Values are scalars or vectors, of i32
// and f32.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_OPTIMIZERS_BLOCKS_H
#define SHALE_NN_OPTIMIZERS_BLOCKS_H

#include "dialects/nn/Optimizers/Real.h"

namespace shale::nn {

/// Elements of a block, its words of codes, and its words: the last one is the scale.
inline constexpr int64_t kMomentBlock = 256, kCodeWords = 64, kBlockWords = 65;
/// Codes of a word. That of byte k of word j belongs to element kCodeWords * k + j.
inline constexpr int64_t kWordCodes = kMomentBlock / kCodeWords;

/// The kind of a code: with a sign and 7 bits, or without and 8.
enum class Moment { First, Second };

/// Emits the value of byte `number` of a word of codes.
mlir::Value emitDecoded(mlir::OpBuilder &b, mlir::Location loc, Moment moment, mlir::Value word,
                        int64_t number, mlir::Value scale);

/// Emits the code of a value, shifted to byte `number`. `scale` is the largest magnitude of the
/// value's block.
mlir::Value emitCode(mlir::OpBuilder &b, mlir::Location loc, Moment moment, mlir::Value value,
                     int64_t number, mlir::Value scale);

/// Emits the formula of nn.adamw. `in` is the adaptor of at.operands, of this op or nn.adamw8bit.
template <typename Adaptor>
llvm::SmallVector<mlir::Value> emitAdamw(const UpdateElement &at, Adaptor in) {
  auto [param, moment1, moment2, g] =
      reals(at, in.getParam(), in.getMoment1(), in.getMoment2(), in.getGrad());
  auto [lr, beta1, beta2, epsilon] =
      reals(at, in.getLr(), in.getBeta1(), in.getBeta2(), in.getEpsilon());
  auto [weightDecay, bias1, bias2] = reals(at, in.getWeightDecay(), in.getBias1(), in.getBias2());
  Real p = param * (1 - lr * weightDecay);
  Real m = moment1 + (g - moment1) * (1 - beta1);
  Real v = moment2 * beta2 + g * g * (1 - beta2);
  return {p - lr / bias1 * m / (sqrt(v) / sqrt(bias2) + epsilon), m, v};
}

} // namespace shale::nn

#endif // SHALE_NN_OPTIMIZERS_BLOCKS_H
