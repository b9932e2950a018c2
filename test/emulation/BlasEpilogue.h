// Epilogues of the emulated cuBLASLt: a bias, GELU, and its gradient.
#ifndef SHALE_TEST_EMULATION_BLASEPILOGUE_H
#define SHALE_TEST_EMULATION_BLASEPILOGUE_H

#pragma GCC visibility push(default)
#include <cublasLt.h>
#include <cuda.h>
#pragma GCC visibility pop
#include <cstdint>

namespace shale::stub {

/// The attributes of a description that concern its epilogue.
struct Epilogue {
  uint32_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  void *bias = nullptr, *aux = nullptr;
  int64_t auxLd = 0;
  int32_t biasType = -1, auxType = -1; ///< cudaDataType; -1: that of D

  /// Checks the attributes for a matrix D of `rows` rows. An algorithm that aligns to more than an
  /// element needs aligned operands.
  cublasStatus_t check(int64_t rows, int batch, cudaDataType type, bool rowMajor) const;
  bool hasBias() const;
  /// Whether the matrix of values before the activation is written, or read.
  bool writesAux() const;
  bool readsAux() const;
  /// Returns the largest power of two, at most 256, of which the addresses are multiples.
  uint64_t alignment() const;

  /// Returns what becomes of an element `value` in row i and column j; `biasData` and `auxData` are
  /// the host's addresses of the operands, with elements of `type`.
  float apply(cudaDataType type, int64_t i, int64_t j, float value, const char *biasData,
              char *auxData) const;
};

} // namespace shale::stub

#endif
