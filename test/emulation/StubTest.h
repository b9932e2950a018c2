// Tests of the emulated CUDA libraries. Each runs in processes of its own, with its own
// environment.
#ifndef SHALE_TEST_EMULATION_STUBTEST_H
#define SHALE_TEST_EMULATION_STUBTEST_H

#include <cstdlib>
#include <cuda.h>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace shale::stub::test {

using Environment = std::vector<std::pair<const char *, std::string>>;

/// Runs `function` in each of `count` processes, with the process's number. Returns what waitpid
/// says of each; 0 if no expectation failed.
inline std::vector<int> runProcesses(int count, const Environment &environment,
                                     const std::function<void(int)> &function) {
  std::vector<pid_t> children;
  fflush(stdout);
  for (int i = 0; i < count; ++i) {
    pid_t child = fork();
    if (child == 0) {
      for (auto &[name, value] : environment)
        setenv(name, value.c_str(), 1);
      alarm(60); // a test that hangs fails
      function(i);
      fflush(stdout);
      std::exit(testing::Test::HasFailure());
    }
    children.push_back(child);
  }
  std::vector<int> results;
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    results.push_back(status);
  }
  return results;
}

inline int run(const Environment &environment, const std::function<void()> &function) {
  return runProcesses(1, environment, [&](int) { function(); })[0];
}
inline void expectPasses(const Environment &environment, const std::function<void()> &function) {
  if (int status = run(environment, function))
    ADD_FAILURE() << "the process ended with " << status;
}

/// Whether a process was ended by a signal.
inline bool diedOf(int status, int signal) {
  return WIFSIGNALED(status) && WTERMSIG(status) == signal;
}

#define CHECK_CU(call) ASSERT_EQ(call, CUDA_SUCCESS)
#define EXPECT_CU(call) EXPECT_EQ(call, CUDA_SUCCESS)

/// The device with some streams.
struct Gpu {
  std::vector<CUstream> streams;
  CUcontext context = nullptr;

  explicit Gpu(int count = 1) {
    CUdevice device;
    EXPECT_CU(cuInit(0));
    EXPECT_CU(cuDeviceGet(&device, 0));
    EXPECT_CU(cuDevicePrimaryCtxRetain(&context, device));
    EXPECT_CU(cuCtxSetCurrent(context));
    streams.resize(count);
    for (CUstream &stream : streams)
      EXPECT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  }
  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr memory = 0;
    EXPECT_CU(cuMemAlloc(&memory, bytes));
    return memory;
  }
  template <typename Type> CUdeviceptr upload(const std::vector<Type> &values) {
    CUdeviceptr memory = allocate(values.size() * sizeof(Type));
    EXPECT_CU(cuMemcpyHtoD(memory, values.data(), values.size() * sizeof(Type)));
    return memory;
  }
  template <typename Type> std::vector<Type> download(CUdeviceptr memory, size_t count) {
    std::vector<Type> values(count);
    EXPECT_CU(cuMemcpyDtoH(values.data(), memory, count * sizeof(Type)));
    return values;
  }
};

} // namespace shale::stub::test

#endif
