// An NVIDIA GPU as the device.
//
// Kernels and matmuls are on one stream, copies from and to the host on one each; events order
// them. Work on the host that compiled code orders with them (kernels on host memory) runs on a
// thread for which the compute stream waits (HostThread.h).
#ifndef SHALE_RUNTIME_DEVICE_CUDA_CUDADEVICE_H
#define SHALE_RUNTIME_DEVICE_CUDA_CUDADEVICE_H

#include "runtime/device/Device.h"
#include "runtime/device/cuda/Blas.h"
#include "runtime/device/cuda/BlasTuner.h"
#include "runtime/device/cuda/Dnn.h"
#include "runtime/device/cuda/Driver.h"
#include "runtime/device/cuda/HostThread.h"

#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

namespace shale::rt::cuda {

/// Takes part in calls that are captured and replayed.
class GraphFollower {
public:
  virtual ~GraphFollower() = default;
  /// Work that is enqueued from here to endCapture() is part of the function's graph.
  virtual void beginCapture(ShaleFunction function) = 0;
  virtual void endCapture() = 0;
  /// The function's graph is enqueued on the compute stream.
  virtual void launched(ShaleFunction function) = 0;
};

class CudaDevice final : public Device {
public:
  /// Opens GPU number `ordinal` and loads the program's kernels. Throws with exit code 69, 64 if
  /// the program has no code for this GPU, and 78 if memory is too small.
  CudaDevice(const ShaleProgram &program, int ordinal, bool graphs);

  std::string describe() const override;
  bool sharesMemory() const override { return false; }
  bool hasCollectives() const override { return true; }
  MatmulTuner *tuner() override { return matmuls.get(); }
  bool runsAhead() const override { return true; }
  std::string reportMemory() override;
  std::unique_ptr<Memory> allocate(ShaleSpace space, int64_t bytes, const char *what) override;
  void read(void *target, const char *source, int64_t bytes) override;
  void write(char *target, const void *source, int64_t bytes) override;
  void launch(const Launch &launch) override;
  void multiply(const Matmul &matmul) override;
  void attend(const Attention &attention) override;
  void copy(void *target, const void *source, int64_t bytes) override;
  void copyAcross(void *target, const void *source, int64_t bytes) override;
  void fill(void *target, int byte, int64_t bytes) override;
  void store(int64_t *target, int64_t value) override;
  void startCopy(int32_t index, void *target, const void *source, int64_t bytes) override;
  void waitCopy(int32_t index) override;
  void finish() override;
  std::unique_ptr<Mark> makeMark() override;
  void call(ShaleFunction function, bool observed, const std::function<void()> &body) override;

  /// Returns a text that differs for every GPU in the world.
  std::string uuid() const;
  CUstream computeStream() const { return compute; }
  CUcontext currentContext() const { return context; }
  /// Null: none. The follower must outlive the calls.
  void setFollower(GraphFollower *taken) { follower = taken; }

private:
  struct Transfer {
    CUevent ready, done; // the operands may be accessed; the copy is complete
  };

  struct Block {
    std::string what;
    int64_t bytes, counted; // asked for, and by which the driver's count grew
  };

  void loadKernels();
  int64_t usedBytes() const;
  void onHost(std::function<void()> body);
  bool isHost(const void *address) const;
  CUgraphExec capture(ShaleFunction function, const std::function<void()> &body);

  const ShaleProgram &program;
  const Driver &cu;
  CUdevice device = 0;
  CUcontext context = nullptr;
  std::string name;
  std::vector<Block> blocks; // of device memory
  CUstream compute = nullptr, toDevice = nullptr, toHost = nullptr;
  std::unique_ptr<Memory> workspace;
  std::unique_ptr<Blas> blas;
  std::unique_ptr<Dnn> dnn; // null unless the program attends
  std::unique_ptr<BlasTuner> matmuls;
  std::unordered_map<const void *, CUfunction> kernels; // by ShaleDeviceKernel
  std::vector<Transfer> transfers;                      // by index
  std::map<const char *, int64_t> pinned;               // blocks of host memory and their bytes
  bool graphs, capturing = false;
  std::map<ShaleFunction, CUgraphExec> captured;
  GraphFollower *follower = nullptr;
  std::unique_ptr<HostThread> hostThread; // null before the first work on the host
};

} // namespace shale::rt::cuda

#endif
