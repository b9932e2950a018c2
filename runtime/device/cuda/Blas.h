// Matmuls by cuBLASLt.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_BLAS_H
#define SHALE_RUNTIME_DEVICE_CUDA_BLAS_H

#include "runtime/device/Device.h"

#include <cublasLt.h>
#include <cuda.h>
#include <memory>
#include <string>
#include <vector>

namespace shale::rt::cuda {

class Blas {
public:
  /// Opens cuBLASLt. `workspace` is device memory of `bytes`, or null. Matmuls that are in flight
  /// at once need different workspaces. Throws with exit code 69 if the library is missing.
  Blas(CUdeviceptr workspace, int64_t bytes);
  ~Blas();

  /// Throws with exit code 69 if the library is missing or too old. Needs no GPU.
  static void check();

  /// Enqueues a matmul with the algorithm of use(), or else with the first that cuBLASLt proposes.
  /// One with an epilogue needs an algorithm of use(). Ends the process on failure.
  void multiply(const Matmul &matmul, CUstream stream);

  /// Whether use() was called for this matmul, which has an epilogue, and dropEpilogue() was not.
  bool usesEpilogue(const Matmul &matmul) const;
  /// Undoes use().
  void dropEpilogue(const Matmul &matmul);

  /// Returns cuBLASLt's version: "13.1.0".
  std::string version() const;
  /// Returns what selects an algorithm, as text: operations, shape, types, alignment of the
  /// addresses, the epilogue, and whether the matmul is added to C.
  static std::string keyOf(const Matmul &matmul);
  /// Returns the algorithms that cuBLASLt proposes, at least one, the first choice first. None
  /// needs more than the workspace. If there is none, ends the process or, for a matmul with an
  /// epilogue, returns none.
  std::vector<cublasLtMatmulAlgo_t> candidates(const Matmul &matmul);
  /// Enqueues a matmul. Returns false if cuBLASLt refuses this algorithm.
  bool tryMultiply(const Matmul &matmul, const cublasLtMatmulAlgo_t &algorithm, CUstream stream);
  /// Uses an algorithm for all matmuls of this key from now on. Returns false, without an effect,
  /// if cuBLASLt refuses it, or if it needs more than the workspace.
  bool use(const Matmul &matmul, const cublasLtMatmulAlgo_t &algorithm);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace shale::rt::cuda

#endif
