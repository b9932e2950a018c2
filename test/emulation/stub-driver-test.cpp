// Streams, events, memory, modules and graphs of the emulated CUDA driver.
#include "StubMachine.h"
#include <csignal>
#include <cstring>
#include <set>

using namespace shale::stub::test;

namespace {

/// x + 1 on one stream, then twice that on another. `wrong` misses an event.
void twoStreams(Machine &m, CUdeviceptr x, CUdeviceptr y, CUdeviceptr z, bool wrong) {
  EXPECT_CU(m.launch("add_one", x, y, m.streams[0]));
  if (!wrong)
    m.order(m.streams[0], m.streams[1]);
  EXPECT_CU(m.launch("twice", y, z, m.streams[1]));
  m.order(m.streams[1], m.streams[0]);
}

} // namespace

// ---- streams

TEST(StubDriver, OrdersFindMissingEvents) {
  for (bool wrong : {false, true}) {
    int failed = 0;
    for (const char *order : kOrders)
      failed += 0 != run({{"SHALE_STUB_ORDER", order}}, [&] {
                  Machine m(2);
                  CUdeviceptr x = m.upload(std::vector<float>(kThreads, 3));
                  CUdeviceptr y = m.upload(std::vector<float>(kThreads)), z = m.allocate(256);
                  twoStreams(m, x, y, z, wrong);
                  CHECK_CU(cuStreamSynchronize(m.streams[0]));
                  bool right = m.floats(z) == std::vector<float>(kThreads, 8);
                  std::exit(right ? testing::Test::HasFailure() : 1);
                });
    if (wrong)
      EXPECT_TRUE(failed > 0 && failed < 6) << failed;
    else
      EXPECT_EQ(failed, 0);
  }
}

TEST(StubDriver, RunsNothingBeforeAWait) {
  expectPasses({}, [] {
    Gpu gpu;
    int calls = 0;
    auto count = [](void *data) { ++*static_cast<int *>(data); };
    for (int i = 0; i < 5; ++i)
      CHECK_CU(cuLaunchHostFunc(gpu.streams[0], count, &calls));
    EXPECT_EQ(calls, 0);
    CUresult result;
    while ((result = cuStreamQuery(gpu.streams[0])) == CUDA_ERROR_NOT_READY)
      ;
    EXPECT_CU(result);
    EXPECT_EQ(calls, 5);
  });
}

TEST(StubDriver, KeepsWorkOfDestroyedStreams) {
  expectPasses({}, [] {
    Machine m;
    CUdeviceptr x = m.upload(std::vector<float>(kThreads, 1));
    CHECK_CU(m.launch("add_one", x, x, m.streams[0]));
    CHECK_CU(cuStreamDestroy(m.streams[0]));
    EXPECT_EQ(cuStreamQuery(m.streams[0]), CUDA_ERROR_INVALID_HANDLE);
    CHECK_CU(cuCtxSynchronize());
    EXPECT_EQ(m.floats(x), std::vector<float>(kThreads, 2));
  });
}

TEST(StubDriver, TimesEvents) {
  expectPasses({}, [] {
    Gpu gpu;
    CUevent start, end, untimed;
    float milliseconds = -1;
    CHECK_CU(cuEventCreate(&start, 0));
    CHECK_CU(cuEventCreate(&end, 0));
    CHECK_CU(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    EXPECT_CU(cuEventQuery(start)); // never recorded
    CHECK_CU(cuEventRecord(start, gpu.streams[0]));
    CHECK_CU(cuLaunchHostFunc(gpu.streams[0], [](void *) { usleep(2000); }, nullptr));
    CHECK_CU(cuEventRecord(end, gpu.streams[0]));
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, end), CUDA_ERROR_NOT_READY);
    CHECK_CU(cuEventSynchronize(end));
    CHECK_CU(cuEventElapsedTime(&milliseconds, start, end));
    EXPECT_GE(milliseconds, 2);
    CHECK_CU(cuEventRecord(untimed, gpu.streams[0]));
    EXPECT_EQ(cuEventElapsedTime(&milliseconds, start, untimed), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(StubDriver, RejectsTheDefaultStream) {
  expectPasses({}, [] {
    Machine m;
    CUdeviceptr x = m.allocate(256);
    float value = 0;
    for (CUstream stream : {CUstream(nullptr), CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
      EXPECT_EQ(m.launch("add_one", x, x, stream), CUDA_ERROR_INVALID_HANDLE);
      EXPECT_EQ(cuMemcpyHtoDAsync(x, &value, 4, stream), CUDA_ERROR_INVALID_HANDLE);
      EXPECT_EQ(cuMemsetD8Async(x, 0, 4, stream), CUDA_ERROR_INVALID_HANDLE);
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    }
  });
}

// ---- memory

TEST(StubDriver, FindsOverwrittenPinnedSources) {
  for (bool pinned : {false, true})
    expectPasses({}, [&] {
      Gpu gpu;
      float plain = 1, *source = &plain;
      if (pinned) {
        CHECK_CU(cuMemHostAlloc(reinterpret_cast<void **>(&source), 4, 0));
      }
      *source = 1;
      CUdeviceptr x = gpu.allocate(4);
      CHECK_CU(cuMemcpyHtoDAsync(x, source, 4, gpu.streams[0]));
      *source = 2; // too early for pinned memory
      CHECK_CU(cuStreamSynchronize(gpu.streams[0]));
      EXPECT_EQ(gpu.download<float>(x, 1)[0], pinned ? 2 : 1);
      // A copy to pageable memory is complete when the call returns.
      *source = 3;
      CHECK_CU(cuMemcpyHtoDAsync(x, source, 4, gpu.streams[0]));
      float got = 0;
      CHECK_CU(cuMemcpyDtoHAsync(&got, x, 4, gpu.streams[0]));
      EXPECT_EQ(got, 3);
    });
}

TEST(StubDriver, KeepsTheProcessFromDeviceMemory) {
  int status = run({}, [] {
    Gpu gpu;
    CUdeviceptr x = gpu.upload(std::vector<float>(4));
    *reinterpret_cast<volatile float *>(x) = 1;
  });
  EXPECT_TRUE(diedOf(status, SIGSEGV)) << status;
}

TEST(StubDriver, FillsFreshMemory) {
  expectPasses({}, [] {
    Gpu gpu;
    size_t bytes = (4 << 20) + 100; // more than one part of the mapping
    std::vector<unsigned char> got = gpu.download<unsigned char>(gpu.allocate(bytes), bytes);
    EXPECT_EQ(got, std::vector<unsigned char>(bytes, 0xff));
    CUdeviceptr x = gpu.allocate(8);
    CHECK_CU(cuMemsetD32Async(x, 0x01020304, 2, gpu.streams[0]));
    CHECK_CU(cuMemsetD8Async(x + 1, 9, 2, gpu.streams[0]));
    CHECK_CU(cuStreamSynchronize(gpu.streams[0]));
    EXPECT_EQ(gpu.download<uint32_t>(x, 2), (std::vector<uint32_t>{0x01090904, 0x01020304}));
  });
}

TEST(StubDriver, RunsOutOfMemory) {
  expectPasses({{"SHALE_STUB_MEMORY", "1000000"}}, [] {
    Gpu gpu;
    size_t available, total;
    CUdeviceptr x, y;
    CHECK_CU(cuMemAlloc(&x, 600000));
    EXPECT_EQ(cuMemAlloc(&y, 600000), CUDA_ERROR_OUT_OF_MEMORY);
    CHECK_CU(cuMemGetInfo(&available, &total));
    EXPECT_EQ(available, 400000u);
    EXPECT_EQ(total, 1000000u);
    CHECK_CU(cuMemFree(x));
    EXPECT_CU(cuMemAlloc(&y, 1000000));
    EXPECT_NE(x, y); // the old address stays invalid
    EXPECT_EQ(cuMemFree(y + 256), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(StubDriver, KeepsErrorsOfTheDevice) {
  for (int what = 0; what < 5; ++what)
    expectPasses({}, [&] {
      Machine m;
      CUdeviceptr x = m.allocate(256), y = m.allocate(256), pinned;
      void *host;
      CHECK_CU(cuMemHostAlloc(&host, 64, 0));
      CHECK_CU(cuMemHostGetDevicePointer(&pinned, host, 0));
      CUstream stream = m.streams[0];
      if (what == 4) {
        CHECK_CU(cuMemFree(y));
      }
      CUresult result = what == 0   ? m.launch("add_one", x + 4, y, stream)  // reads behind the end
                        : what == 1 ? m.launch("add_one", x, pinned, stream) // too small
                        : what == 2 ? cuMemcpyDtoDAsync(x, y + 4, 256, stream)
                        : what == 3 ? cuMemsetD32Async(x - 4, 0, 2, stream)
                                    : m.launch("add_one", x, y, stream); // freed
      CHECK_CU(result);
      EXPECT_EQ(cuStreamSynchronize(stream), CUDA_ERROR_ILLEGAL_ADDRESS);
      EXPECT_EQ(cuMemAlloc(&y, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
      EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    });
}

TEST(StubDriver, CopiesThroughTheDefaultStream) {
  // Blocking streams come before a blocking copy, others need not.
  for (unsigned flags : {unsigned(CU_STREAM_DEFAULT), unsigned(CU_STREAM_NON_BLOCKING)}) {
    std::set<float> seen;
    for (const char *order : kOrders)
      seen.insert(float(WEXITSTATUS(run({{"SHALE_STUB_ORDER", order}}, [&] {
        Machine m;
        CUstream stream;
        CHECK_CU(cuStreamCreate(&stream, flags));
        CUdeviceptr x = m.upload(std::vector<float>(kThreads, 1));
        CHECK_CU(m.launch("add_one", x, x, stream));
        std::exit(int(m.floats(x)[0]));
      }))));
    EXPECT_EQ(seen.count(2), 1u);
    EXPECT_EQ(seen.count(1), flags == CU_STREAM_NON_BLOCKING ? 1u : 0u);
  }
}

// ---- modules

TEST(StubDriver, RunsKernels) {
  for (const char *order : kOrders)
    expectPasses({{"SHALE_STUB_ORDER", order}}, [] {
      Machine m;
      unsigned blocks = 33;
      std::vector<float> values(blocks * kThreads), sums(blocks);
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = float(i % 100);
        sums[i / kThreads] += values[i];
      }
      CUdeviceptr x = m.upload(values), y = m.allocate(blocks * 4);
      CHECK_CU(m.launch("sum", x, y, m.streams[0], blocks));
      CHECK_CU(cuStreamSynchronize(m.streams[0]));
      EXPECT_EQ(m.floats(y, blocks), sums);
    });
}

TEST(StubDriver, RejectsBadModulesAndLaunches) {
  expectPasses({}, [] {
    Machine m;
    CUmodule module;
    CUfunction function;
    std::string text = "//\n// Generated by a compiler\n.version 8.7\n.target sm_90a\n";
    text.resize(256);
    EXPECT_EQ(cuModuleLoadData(&module, text.data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
    std::string other = Machine::image();
    other[18] = char(190); // the machine of a cubin
    EXPECT_EQ(cuModuleLoadData(&module, other.data()), CUDA_ERROR_NO_BINARY_FOR_GPU);
    EXPECT_EQ(cuModuleGetFunction(&function, m.module, "missing"), CUDA_ERROR_NOT_FOUND);
    CUdeviceptr x = m.allocate(256);
    EXPECT_EQ(m.launch("add_one", x, x, m.streams[0], 1, 32), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(m.launch("add_one", x, x, m.streams[0], 0), CUDA_ERROR_INVALID_VALUE);
    function = m.function("add_one");
    CHECK_CU(cuModuleUnload(m.module));
    EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, kThreads, 1, 1, 0, m.streams[0], nullptr, nullptr),
              CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(StubDriver, FindsDivergentBarriers) {
  expectPasses({}, [] {
    Machine m;
    CHECK_CU(m.launch("diverge", 0, 0, m.streams[0]));
    EXPECT_EQ(cuStreamSynchronize(m.streams[0]), CUDA_ERROR_LAUNCH_FAILED);
  });
}

// ---- the device and injected errors

TEST(StubDriver, DescribesTheDevice) {
  expectPasses({{"SHALE_STUB_CAPABILITY", "8.6"}}, [] {
    CUdevice device;
    int major, minor, version;
    EXPECT_EQ(cuDeviceGet(&device, 0), CUDA_ERROR_NOT_INITIALIZED);
    CHECK_CU(cuInit(0));
    CHECK_CU(cuDeviceGet(&device, 0));
    CHECK_CU(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    CHECK_CU(cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
    CHECK_CU(cuDriverGetVersion(&version));
    EXPECT_EQ(major * 10 + minor, 86);
    EXPECT_EQ(version, 13000);
    CUdeviceptr x;
    EXPECT_EQ(cuMemAlloc(&x, 4), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuDeviceGet(&device, 1000), CUDA_ERROR_INVALID_DEVICE);
    void *address = nullptr;
    CHECK_CU(cuGetProcAddress("cuMemAlloc", &address, 13000, 0, nullptr));
    EXPECT_EQ(address, reinterpret_cast<void *>(&cuMemAlloc));
    EXPECT_EQ(cuGetProcAddress("cuMissing", &address, 13000, 0, nullptr), CUDA_ERROR_NOT_FOUND);
  });
}

TEST(StubDriver, FailsOnRequest) {
  expectPasses({{"SHALE_STUB_FAIL", "cuMemAlloc@2=CUDA_ERROR_OUT_OF_MEMORY,"
                                    "cuStreamSynchronize@2=CUDA_ERROR_ECC_UNCORRECTABLE"}},
               [] {
                 Gpu gpu;
                 CUdeviceptr x;
                 EXPECT_CU(cuMemAlloc(&x, 4));
                 EXPECT_EQ(cuMemAlloc(&x, 4), CUDA_ERROR_OUT_OF_MEMORY);
                 EXPECT_CU(cuMemAlloc(&x, 4));
                 EXPECT_CU(cuStreamSynchronize(gpu.streams[0]));
                 EXPECT_EQ(cuStreamSynchronize(gpu.streams[0]), CUDA_ERROR_ECC_UNCORRECTABLE);
                 EXPECT_EQ(cuMemAlloc(&x, 4), CUDA_ERROR_ECC_UNCORRECTABLE); // sticky
               });
}

TEST(StubDriver, RejectsBadEnvironment) {
  for (auto [name, value] : {std::pair{"SHALE_STUB_FAIL", "cuMemAlloc"},
                             {"SHALE_STUB_FAIL", "cuMemAlloc@0=CUDA_ERROR_UNKNOWN"},
                             {"SHALE_STUB_FAIL", "cuMemAlloc=CUDA_ERROR_MISSPELT"},
                             {"SHALE_STUB_ORDER", "backwards"},
                             {"SHALE_STUB_ORDER", "random:x"},
                             {"SHALE_STUB_SUMS", "all"},
                             {"SHALE_STUB_MEMORY", "16GiB"}}) {
    int status = run({{name, value}}, [] {
      Gpu gpu;
      gpu.allocate(4);
    });
    EXPECT_TRUE(diedOf(status, SIGABRT)) << name << "=" << value;
  }
}
