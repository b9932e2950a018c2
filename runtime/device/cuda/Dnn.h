// Attention by cuDNN.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_DNN_H
#define SHALE_RUNTIME_DEVICE_CUDA_DNN_H

#include "runtime/device/Device.h"

#include <cuda.h>
#include <memory>

namespace shale::rt::cuda {

class Dnn {
public:
  /// Opens cuDNN for the GPU of the current context. Throws with exit code 69 if the library is
  /// missing, too old, or not part of this build.
  explicit Dnn(CUdevice device);
  ~Dnn();

  /// Throws with exit code 69 if the constructor would for the sake of the library. Needs no GPU.
  static void check();

  /// Enqueues attention or its gradient. The first call of each shape builds a plan, and must not
  /// be captured. Ends the process on failure: with exit code 78 if every plan needs more than the
  /// workspace, 69 if cuDNN has no plan, and 70 if the work cannot be enqueued.
  void attend(const Attention &attention, CUstream stream);

private:
  struct State;
  std::unique_ptr<State> state;
};

} // namespace shale::rt::cuda

#endif
