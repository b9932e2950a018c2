//===- Rounding.h - Stochastic rounding of new parameters -----------------===//
//
// The parts of updates' kernels that round stochastically (nn.adamw), for every target. Values are
// scalars or vectors.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_NN_OPTIMIZERS_ROUNDING_H
#define SHALE_NN_OPTIMIZERS_ROUNDING_H

#include "dialects/nn/NN.h"
#include <array>

namespace shale::nn {

/// Elements that share a block of random words. Numbers of first elements are multiples of it.
inline constexpr int64_t kRoundedTogether = 4;
/// The largest number of an element. The counter has 48 bits for it.
inline constexpr int64_t kMostRounded = int64_t(1) << 48;
/// Stands for the micro-batch in the counter. A step has fewer, so the words are not those of
/// dropout.
inline constexpr uint32_t kRoundingMicrobatch = 65535;

/// Emits the random words of four elements. `number` is that of the first one, a multiple of 4;
/// `seed` and `step` are scalars. All are of i64.
std::array<mlir::Value, 4> emitRoundingWords(mlir::OpBuilder &b, mlir::Location loc,
                                             mlir::Value number, mlir::Value seed,
                                             mlir::Value step);

/// Emits the random word of one element, or of each lane of a vector of them.
mlir::Value emitRoundingWord(mlir::OpBuilder &b, mlir::Location loc, mlir::Value number,
                             mlir::Value seed, mlir::Value step);

/// Emits an f32 rounded to bf16 by a random word, still as an f32.
mlir::Value emitRounded(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                        mlir::Value word);

} // namespace shale::nn

#endif // SHALE_NN_OPTIMIZERS_ROUNDING_H
