// The runtime's work on the host in order with a stream of the emulated driver.
#include "StubTest.h"
#include "runtime/device/cuda/CudaDevice.h"

#include <atomic>
#include <thread>

using namespace shale::rt;
using namespace shale::stub::test;

namespace {

void function(ShaleRank *, char *, char *, const void *const *, const float *, float *) {}

std::atomic<bool> called;

/// A kernel of the host that takes longer than a callback of another stream needs to begin. Adds 1
/// if the callback came, or 100.
void waitForCallback(void *const *args, int64_t, int64_t) {
  for (int i = 0; i < 2000 && !called; ++i)
    usleep(1000);
  *static_cast<float *>(args[0]) += called ? 1 : 100;
}
void twice(void *const *args, int64_t, int64_t) { *static_cast<float *>(args[0]) *= 2; }

/// Runs both kernels of the host, between copies of the device, five times.
void runKernels(bool graphs) {
  ShaleProgram program{};
  program.target = "emulated";
  cuda::CudaDevice device(program, 0, graphs);
  CUstream other = nullptr;
  CHECK_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  auto onDevice = device.allocate(SHALE_SPACE_DEVICE, 4, "a number");
  auto onHost = device.allocate(SHALE_SPACE_HOST, 4, "a number");
  float expected = 0;
  for (int run = 0; run < 5; ++run) {
    called = false;
    device.call(function, /*observed=*/false, [&] {
      device.copyAcross(onHost->data(), onDevice->data(), 4);
      void *args[] = {onHost->data()};
      for (ShaleKernel kernel : {waitForCallback, twice})
        device.launch({reinterpret_cast<const void *>(kernel), args, 1, 1, 1, SHALE_SPACE_HOST});
      device.copyAcross(onDevice->data(), onHost->data(), 4);
    });
    // As NCCL has for its communication over a network.
    CHECK_CU(cuLaunchHostFunc(other, [](void *) { called = true; }, nullptr));
    float got = 0;
    device.read(&got, onDevice->data(), 4);
    expected = (expected + 1) * 2;
    ASSERT_EQ(got, expected) << "run " << run;
    CHECK_CU(cuStreamSynchronize(other));
  }
}

TEST(Host, WorkIsInOrderAndDelaysNoCallback) {
  for (const char *order : {"first", "last", "random:1", "random:2"})
    for (bool graphs : {false, true})
      expectPasses({{"SHALE_STUB_ORDER", order}}, [&] { runKernels(graphs); });
}

TEST(Host, EndsIfTheStreamCannotWait) {
  int status = run({{"SHALE_STUB_FAIL", "cuStreamBatchMemOp=CUDA_ERROR_NOT_SUPPORTED"}},
                   [] { runKernels(false); });
  EXPECT_EQ(WEXITSTATUS(status), SHALE_EXIT_INTERNAL);
}

} // namespace
