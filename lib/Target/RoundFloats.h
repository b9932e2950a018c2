//===- RoundFloats.h - f32 to fewer bits by integer arithmetic ------------===//
#ifndef SHALE_TARGET_ROUNDFLOATS_H
#define SHALE_TARGET_ROUNDFLOATS_H

namespace mlir {
class Operation;
} // namespace mlir

namespace shale {

/// Replaces each arith.truncf of f32 to bf16 or to 8-bit floats, of scalars and vectors, by integer
/// ops that round to nearest even. CPU instructions for it flush subnormals, and bits must not
/// depend on the CPU.
void roundByIntegers(mlir::Operation *root);

} // namespace shale

#endif // SHALE_TARGET_ROUNDFLOATS_H
