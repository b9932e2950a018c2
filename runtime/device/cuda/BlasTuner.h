// Times the algorithms that cuBLASLt proposes for matmuls.
#ifndef SHALE_RUNTIME_DEVICE_CUDA_BLASTUNER_H
#define SHALE_RUNTIME_DEVICE_CUDA_BLASTUNER_H

#include "runtime/device/Tuner.h"
#include "runtime/device/cuda/Blas.h"
#include "runtime/device/cuda/Driver.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace shale::rt::cuda {

/// Returns the median; 0 without values.
double medianOf(std::vector<double> values);

/// Returns the index of the candidate with the least time if that is less than the first one's by
/// more than 2 %, else 0.
size_t fastest(const std::vector<double> &times);

class BlasTuner final : public MatmulTuner {
public:
  /// `gpu` names the GPU. Work is enqueued on `stream`, kernels by `launch`.
  BlasTuner(Blas &blas, CUstream stream, const std::string &gpu,
            std::function<void(const Launch &)> launch = nullptr);

  std::string machine() const override;
  std::string keyOf(const Matmul &matmul) const override { return Blas::keyOf(matmul); }
  void begin(char *scratch, int64_t bytes) override;
  Choice choose(const Matmul &matmul, bool timed) override;
  void end() override;
  double seconds() const override { return spent; }
  bool use(const Matmul &matmul, const std::string &algorithm) override;

private:
  Matmul place(const Matmul &matmul);
  bool placeEpilogue(const Matmul &matmul, uintptr_t begin, uintptr_t end);
  void fill(uintptr_t begin, uintptr_t end);
  Choice chooseEpilogue(const Matmul &matmul);
  /// Returns the milliseconds of each of `count` ways to compute a matmul, infinite for those that
  /// `run` refuses.
  std::vector<double> timesOf(const Matmul &matmul, size_t count,
                              const std::function<bool(size_t)> &run);
  void record(CUevent event);
  double millisecondsBetween(CUevent start, CUevent end) const;

  Blas &blas;
  const Driver &cu;
  CUstream stream;
  std::string gpu;
  std::function<void(const Launch &)> launch;
  char *scratch = nullptr;
  int64_t scratchBytes = 0;
  std::vector<uint16_t> numbers; // random ones, between begin() and end()
  double spent = 0;              // seconds
  std::vector<CUevent> events;   // begin, then one more than there are candidates, then end
};

} // namespace shale::rt::cuda

#endif
