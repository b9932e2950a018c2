// The emulated device with the kernels of stub-kernels.cpp.
#ifndef SHALE_TEST_EMULATION_STUBMACHINE_H
#define SHALE_TEST_EMULATION_STUBMACHINE_H

#include "StubTest.h"
#include <string>

namespace shale::stub::test {

constexpr unsigned kThreads = 64; // of a block, stub-kernels.cpp

/// The device with the kernels of stub-kernels.cpp.
struct Machine : Gpu {
  CUmodule module = nullptr;

  explicit Machine(int streams = 1) : Gpu(streams) {
    EXPECT_CU(cuModuleLoadData(&module, image().data()));
  }
  static const std::string &image() {
    static const std::string bytes = [] {
      std::ifstream file(STUB_KERNELS, std::ios::binary);
      std::ostringstream all;
      all << file.rdbuf();
      return all.str();
    }();
    return bytes;
  }
  CUfunction function(const char *name) {
    CUfunction made = nullptr;
    EXPECT_CU(cuModuleGetFunction(&made, module, name));
    return made;
  }
  CUresult launch(const char *name, CUdeviceptr x, CUdeviceptr y, CUstream stream,
                  unsigned blocks = 1, unsigned threads = kThreads) {
    void *parameters[] = {&x, &y};
    return cuLaunchKernel(function(name), blocks, 1, 1, threads, 1, 1, 0, stream, parameters,
                          nullptr);
  }
  CUevent event() {
    CUevent made = nullptr;
    EXPECT_CU(cuEventCreate(&made, CU_EVENT_DISABLE_TIMING));
    return made;
  }
  /// `after` waits for what is in `before`.
  void order(CUstream before, CUstream after) {
    CUevent made = event();
    EXPECT_CU(cuEventRecord(made, before));
    EXPECT_CU(cuStreamWaitEvent(after, made, 0));
    EXPECT_CU(cuEventDestroy(made));
  }
  std::vector<float> floats(CUdeviceptr memory, size_t count = kThreads) {
    return download<float>(memory, count);
  }
};

const char *const kOrders[] = {"first", "last", "random:1", "random:2", "random:3", "random:4"};

} // namespace shale::stub::test

#endif
