// Gives the runtime's graphs of attention to the real cuDNN, which needs no GPU for this: it takes
// the properties of a device as JSON. Only building and running a plan need one.
#include "lib/Target/CUDA/AttentionBytes.h"
#include "runtime/device/cuda/DnnGraph.h"

#include <gtest/gtest.h>

void *cudnn_frontend::cudnn_dlhandle = nullptr;

using namespace shale::rt;
using namespace shale::rt::cuda;
using shale::cuda::attentionBytes;
using shale::cuda::AttentionSizes;

namespace {

struct Gpu {
  int architecture, processors;
  int64_t shared; // bytes of shared memory that a block may have
};
const Gpu gpus[] = {{80, 108, 166912}, {90, 132, 232448}, {100, 148, 232448}};

/// Properties of a GPU, with the keys that cuDNN 9.19 to 9.28 ask for.
std::string json(const Gpu &gpu) {
  return format(
      R"({"schemaVersion": 1, "cudnnVersion": %zu, "deviceName": "GPU", "deviceVer": %d,
          "driverVer": 13000, "cudaDeviceId": 0, "pciDeviceId": 0, "isTccDriver": 0,
          "supportCoopLaunch": 1, "multiProcessorCount": %d, "smCountOrigin": 0, "warpSize": 32,
          "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
          "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
          "maxSharedMemoryPerBlockOptin": %lld, "reservedSharedMemoryPerBlock": 1024,
          "oversizedSharedMemoryPerBlock": 0, "memoryBusWidth": 5120,
          "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
          "smClockRateKHz": 1500000, "memClockRateKHz": 1500000, "l2CacheSize": 41943040,
          "totalGlobalMem": 85899345920})",
      fe::detail::get_backend_version(), gpu.architecture * 10, gpu.processors,
      (long long)gpu.shared);
}

/// Which attention, and how its tensors lie in memory.
struct Shape {
  AttentionSizes sizes;
  bool causal, packed; // query, key and value are parts of one matmul, or else [B,T,H,D]
  Dtype type;
  int64_t window = 0;
};

Attention attentionOf(const Shape &shape, bool gradient, bool deterministic) {
  static float anything; // addresses are not looked at
  const AttentionSizes &s = shape.sizes;
  Attention a = {};
  a.batch = s.batch, a.heads = s.heads, a.keyHeads = s.keyHeads;
  a.length = s.length, a.keyLength = s.keyLength, a.depth = s.depth, a.valueDepth = s.valueDepth;
  a.causal = shape.causal, a.window = shape.window, a.deterministic = deterministic;
  a.scale = 0.125f, a.type = shape.type;
  int64_t matmul = s.heads * s.depth + s.keyHeads * (s.depth + s.valueDepth);
  auto place = [&](int64_t heads, int64_t length, int64_t depth, bool packed) {
    int64_t row = packed ? matmul : heads * depth;
    return Attention::Tensor{&anything, {length * row, depth, row, 1}};
  };
  a.query = place(s.heads, s.length, s.depth, shape.packed);
  a.key = place(s.keyHeads, s.keyLength, s.depth, shape.packed);
  a.value = place(s.keyHeads, s.keyLength, s.valueDepth, shape.packed);
  a.output = place(s.heads, s.length, s.valueDepth, false);
  a.lse = &anything;
  if (gradient) {
    a.queryGradient = a.query, a.keyGradient = a.key, a.valueGradient = a.value;
    a.outputGradient = a.output;
  }
  return a;
}

/// The bytes of the workspace that the frontend takes for itself.
struct Opened : fe::graph::Graph {
  static int64_t bytes(const fe::graph::Graph &graph) {
    return (graph.*&Opened::get_fe_workspace_size_subtree)();
  }
};

class Accepts : public testing::TestWithParam<Gpu> {
protected:
  void SetUp() override {
    // cuDNN looks for the driver's library, for which the toolkit's stub is enough.
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL))
      dlopen(SHALE_CUDA_STUB, RTLD_NOW | RTLD_GLOBAL);
    fe::cudnn_dlhandle = dlopen(SHALE_CUDNN_LIBRARY, RTLD_NOW | RTLD_GLOBAL);
    ASSERT_TRUE(fe::cudnn_dlhandle) << "cuDNN cannot be opened: " << dlerror();
    if (CUDNN_VERSION < 91900)
      GTEST_SKIP() << "this build has the headers of cuDNN " << CUDNN_VERSION
                   << ", which is older than 9.19";
    ASSERT_GE(fe::detail::get_backend_version(), 91900u) << "the library is older than its headers";
    std::string text = json(GetParam());
    properties = std::make_shared<fe::DeviceProperties>();
    fe::error_t error = properties->deserialize(std::vector<uint8_t>(text.begin(), text.end()));
    ASSERT_FALSE(error.is_bad()) << "cuDNN " << fe::detail::get_backend_version()
                                 << " does not take these properties of a GPU: "
                                 << error.get_message();
  }

  /// Whether cuDNN has a plan that fits the planned workspace, less some bytes.
  fe::error_t fit(const Shape &shape, bool gradient, bool deterministic, int64_t less = 0) {
    int architecture = GetParam().architecture;
    auto graph = attentionGraph(attentionOf(shape, gradient, deterministic), architecture);
    graph->set_device_properties(properties);
    fe::error_t error = proposePlans(*graph, nullptr, deterministic);
    if (error.is_bad())
      return error;
    int64_t planned = attentionBytes(shape.sizes, gradient, deterministic, architecture) - less;
    graph->deselect_workspace_greater_than(planned - Opened::bytes(*graph));
    return graph->check_support();
  }
  void expectPlan(const Shape &shape, bool gradient, bool deterministic) {
    SCOPED_TRACE(testing::Message()
                 << "gradient " << gradient << ", deterministic " << deterministic);
    fe::error_t error = fit(shape, gradient, deterministic);
    EXPECT_TRUE(error.is_good()) << error.get_message();
  }
  void expectPlans(const Shape &shape) {
    const AttentionSizes &s = shape.sizes;
    SCOPED_TRACE(testing::Message() << s.batch << " x " << s.heads << "/" << s.keyHeads << " x "
                                    << s.length << "/" << s.keyLength << " x " << s.depth << "/"
                                    << s.valueDepth << ", causal " << shape.causal);
    expectPlan(shape, false, false);
    expectPlan(shape, false, true);
    expectPlan(shape, true, false);
    expectPlan(shape, true, true);
  }

  std::shared_ptr<fe::DeviceProperties> properties;
};

} // namespace

TEST_P(Accepts, Models) {
  for (Dtype type : {Dtype::BF16, Dtype::F16})
    for (bool packed : {true, false}) {
      expectPlans({{64, 12, 12, 1024, 1024, 64, 64}, true, packed, type}); // GPT-2 124M
      expectPlans({{8, 32, 8, 2048, 2048, 64, 64}, true, packed, type});   // Llama 1B
      expectPlans({{2, 32, 8, 4096, 4096, 128, 128}, true, packed, type}); // Llama 8B
    }
}

TEST_P(Accepts, OddSizes) {
  const AttentionSizes sizes[] = {
      {4, 4, 4, 64, 64, 16, 16},     {2, 4, 2, 100, 100, 16, 16},   {1, 3, 3, 7, 7, 8, 8},
      {1, 8, 2, 1000, 1000, 80, 80}, {1, 8, 8, 1000, 1000, 96, 96}, {2, 8, 8, 64, 200, 64, 64},
      {2, 8, 4, 64, 200, 64, 64},    {2, 8, 8, 256, 256, 128, 64},  {2, 8, 2, 256, 256, 64, 128},
      {1, 8, 1, 333, 333, 72, 72},   {1, 1, 1, 5, 5, 64, 64}};
  for (const AttentionSizes &size : sizes)
    for (bool causal : {true, false})
      expectPlans({size, causal, false, Dtype::BF16});
}

TEST_P(Accepts, Windows) {
  for (int64_t window : {1, 100, 4096})
    for (bool packed : {true, false}) {
      expectPlans({{2, 32, 8, 8192, 8192, 128, 128}, true, packed, Dtype::BF16, window});
      expectPlans({{2, 4, 2, 100, 100, 16, 16}, true, packed, Dtype::BF16, window});
    }
}

TEST_P(Accepts, NoLessWorkspace) {
  for (bool deterministic : {false, true}) {
    EXPECT_TRUE(
        fit({{64, 12, 12, 1024, 1024, 64, 64}, true, true, Dtype::BF16}, true, deterministic, 257)
            .is_bad());
    EXPECT_TRUE(
        fit({{2, 32, 8, 4096, 4096, 128, 128}, true, true, Dtype::BF16}, true, deterministic, 257)
            .is_bad());
  }
}

TEST_P(Accepts, NoOtherSizes) {
  for (bool gradient : {false, true})
    for (const AttentionSizes &sizes :
         {AttentionSizes{2, 4, 4, 64, 64, 12, 12},  // features that are no multiple of 8
          AttentionSizes{2, 4, 3, 64, 64, 16, 16},  // heads that share no key heads evenly
          AttentionSizes{2, 4, 4, 65, 64, 16, 16}}) // a position that sees no key
      EXPECT_TRUE(fit({sizes, true, false, Dtype::BF16}, gradient, false).is_bad());
}

INSTANTIATE_TEST_SUITE_P(Cudnn, Accepts, testing::ValuesIn(gpus),
                         [](const testing::TestParamInfo<Gpu> &info) {
                           return "sm" + std::to_string(info.param.architecture);
                         });
