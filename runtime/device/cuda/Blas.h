// Matrix products by cuBLASLt.
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
  /// Opens cuBLASLt. `workspace` is device memory of `bytes`, or null. Products that are in flight
  /// at once need different workspaces. Throws with exit code 69 if the library is missing.
  Blas(CUdeviceptr workspace, int64_t bytes);
  ~Blas();

  /// Throws with exit code 69 if the library is missing or too old. Needs no GPU.
  static void check();

  /// Enqueues a product with the algorithm of use(), or else with the first that cuBLASLt proposes.
  /// One with an epilogue needs an algorithm of use(). Ends the process on failure.
  void multiply(const Product &product, CUstream stream);

  /// Whether use() was called for this product, which has an epilogue, and dropEpilogue() was not.
  bool usesEpilogue(const Product &product) const;
  /// Undoes use().
  void dropEpilogue(const Product &product);

  /// Returns cuBLASLt's version: "13.1.0".
  std::string version() const;
  /// Returns what selects an algorithm, as text: operations, shape, types, alignment of the
  /// addresses, the epilogue, and whether the product is added to C.
  static std::string keyOf(const Product &product);
  /// Returns the algorithms that cuBLASLt proposes, at least one, the first choice first. None
  /// needs more than the workspace. If there is none, ends the process or, for a product with an
  /// epilogue, returns none.
  std::vector<cublasLtMatmulAlgo_t> candidates(const Product &product);
  /// Enqueues a product. Returns false if cuBLASLt refuses this algorithm.
  bool tryMultiply(const Product &product, const cublasLtMatmulAlgo_t &algorithm, CUstream stream);
  /// Uses an algorithm for all products of this key from now on. Returns false, without an effect,
  /// if cuBLASLt refuses it, or if it needs more than the workspace.
  bool use(const Product &product, const cublasLtMatmulAlgo_t &algorithm);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace shale::rt::cuda

#endif
