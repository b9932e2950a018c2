// Matrix products by cuBLASLt.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_BLAS_H
#define SHALE_RUNTIME_DEVICE_CUDA_BLAS_H

#include "runtime/device/Device.h"

#include <cuda.h>
#include <memory>

namespace shale::rt::cuda {

class Blas {
public:
  /// Opens cuBLASLt. `workspace` is device memory of `bytes`, or null. Products that are in flight
  /// at once need different workspaces. Throws with exit code 69 if the library is missing.
  Blas(CUdeviceptr workspace, int64_t bytes);
  ~Blas();

  /// Enqueues a product. Ends the process on failure.
  void multiply(const Product &product, CUstream stream);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace shale::rt::cuda

#endif
