// Matmuls with epilogues: the runtime's, on the emulated cuBLASLt, against loops in f64; how the
// runtime chooses them; and what the emulated library refuses.
#include "Floats.h"
#include "StubMachine.h"
#include "runtime/device/cuda/BlasTuner.h"

#include <cmath>
#include <random>

using namespace shale::stub;
using namespace shale::stub::test;
using namespace shale::rt;
using namespace shale::rt::cuda;

namespace {

constexpr int64_t kM = 24, kN = 16, kK = 40, kArena = 1 << 16;

void *at(CUdeviceptr address) { return reinterpret_cast<void *>(address); }

/// A 16-bit matmul with an epilogue, with all buffers in an arena.
struct Bench {
  Gpu gpu;
  bool half;
  std::mt19937 random{3};
  CUdeviceptr workspace = gpu.allocate(SHALE_BLAS_WORKSPACE);
  std::vector<float> a = numbers(kM * kK), b = numbers(kK * kN), with;
  CUdeviceptr arena = gpu.upload(std::vector<char>(kArena, 0)), state;
  Blas blas{workspace, SHALE_BLAS_WORKSPACE};
  int launches = 0;
  BlasTuner tuner{blas, gpu.streams[0], "some GPU", [&](const Launch &launch) {
                    ++launches;
                    EXPECT_EQ(launch.count, matmul.epilogue.before ? 4 : 3);
                    EXPECT_EQ(launch.rows, 7);
                    // A kernel that takes the declared time.
                    Machine &machine = kernels();
                    CUdeviceptr x = gpu.allocate(4 * kThreads), y = gpu.allocate(4 * kThreads);
                    EXPECT_CU(machine.launch("add_one", x, y, gpu.streams[0]));
                  }};
  Matmul matmul;

  Bench(ShaleEpilogue kind, bool keeps, bool half = false)
      : half(half), with(numbers(kind == SHALE_EPILOGUE_GELU_GRAD ? kM * kN : kN)),
        state(upload(a)) {
    Dtype type = half ? Dtype::F16 : Dtype::BF16;
    matmul = {false,         false, kM, kN,        kK, 1,    at(state), kK,
              at(upload(b)), kN,    0,  at(arena), kN, type, type};
    matmul.epilogue = {kind, at(upload(with)), keeps ? at(arena + 4096) : nullptr, "kernel", 7, 1};
  }
  static Machine &kernels() {
    static Machine machine;
    return machine;
  }
  float rounded(float value) const {
    return half ? float(Half::of(value)) : float(BFloat::of(value));
  }
  std::vector<float> numbers(size_t count) {
    std::normal_distribution<float> normal;
    std::vector<float> values(count);
    for (float &value : values)
      value = rounded(normal(random));
    return values;
  }
  CUdeviceptr upload(const std::vector<float> &values) {
    std::vector<uint16_t> bits;
    for (float value : values)
      bits.push_back(half ? Half::of(value).bits : BFloat::of(value).bits);
    return gpu.upload(bits);
  }
  std::vector<float> download(const void *memory) {
    std::vector<float> values;
    for (uint16_t bits : gpu.download<uint16_t>(reinterpret_cast<CUdeviceptr>(memory), kM * kN))
      values.push_back(half ? float(Half{bits}) : float(BFloat{bits}));
    return values;
  }
  Choice choose(bool timed = true) {
    tuner.begin(reinterpret_cast<char *>(arena), kArena);
    Choice choice = tuner.choose(matmul, timed);
    tuner.end();
    return choice;
  }
};

double gelu(double x) {
  return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double slope(double x) { return (gelu(x + 1e-6) - gelu(x - 1e-6)) / 2e-6; }

/// Runs all algorithms of a matmul and compares its results.
void check(ShaleEpilogue kind, bool keeps, bool half) {
  Bench bench(kind, keeps, half);
  std::vector<cublasLtMatmulAlgo_t> algorithms = bench.blas.candidates(bench.matmul);
  ASSERT_EQ(algorithms.size(), 3u);
  double unit = half ? 0x1p-11 : 0x1p-8;
  for (const cublasLtMatmulAlgo_t &algorithm : algorithms) {
    EXPECT_CU(cuMemsetD8Async(bench.arena, 0xff, kArena, bench.gpu.streams[0]));
    ASSERT_TRUE(bench.blas.use(bench.matmul, algorithm));
    ASSERT_TRUE(bench.blas.usesEpilogue(bench.matmul));
    bench.blas.multiply(bench.matmul, bench.gpu.streams[0]);
    EXPECT_CU(cuStreamSynchronize(bench.gpu.streams[0]));
    std::vector<float> made = bench.download(bench.matmul.c), before(kM * kN);
    if (keeps)
      before = bench.download(bench.matmul.epilogue.before);
    for (int64_t i = 0; i < kM; ++i)
      for (int64_t j = 0; j < kN; ++j) {
        double sum = 0, x = bench.with[kind == SHALE_EPILOGUE_GELU_GRAD ? i * kN + j : j];
        for (int64_t l = 0; l < kK; ++l)
          sum += double(bench.a[i * kK + l]) * bench.b[l * kN + j];
        double expected = kind == SHALE_EPILOGUE_GELU_GRAD ? sum * slope(x)
                          : kind == SHALE_EPILOGUE_GELU    ? gelu(sum + x)
                                                           : sum + x;
        ASSERT_NEAR(made[i * kN + j], expected, 2e-5 + 1.01 * unit * std::abs(expected));
        if (!keeps)
          continue;
        ASSERT_NEAR(before[i * kN + j], sum + x, 2e-5 + 1.01 * unit * std::abs(sum + x));
      }
  }
}

/// A BIAS, GELU or DGELU matmul of bf16, whose attributes a test changes before it asks the
/// library.
struct Call {
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;

  Call(cublasLtEpilogue_t kind, CUdeviceptr bias, CUdeviceptr aux, int64_t ld,
       cudaDataType type = CUDA_R_16BF) {
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, kind);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, at(bias));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, at(aux));
    set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&a, type, 16, 16, 16), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&b, type, 16, 16, 16), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&d, type, 16, 16, 16), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
  }
  template <typename Value> void set(cublasLtMatmulDescAttributes_t what, const Value &value) {
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description, what, &value, sizeof(value)),
              CUBLAS_STATUS_SUCCESS);
  }
  cublasStatus_t status() {
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    return cublasLtMatmulAlgoGetHeuristic(handle, description, a, b, d, d, preference, 1, &found,
                                          &count);
  }
};

} // namespace

TEST(StubEpilogue, ComputesEachKindAndType) {
  for (bool half : {false, true}) {
    expectPasses({}, [&] { check(SHALE_EPILOGUE_BIAS, false, half); });
    expectPasses({}, [&] { check(SHALE_EPILOGUE_GELU, false, half); });
    expectPasses({}, [&] { check(SHALE_EPILOGUE_GELU, true, half); });
    expectPasses({}, [&] { check(SHALE_EPILOGUE_GELU_GRAD, false, half); });
  }
}

TEST(StubEpilogue, RejectsBadCalls) {
  expectPasses({}, [] {
    Gpu gpu;
    CUdeviceptr memory = gpu.allocate(4096);
    const auto bias = CUBLASLT_EPILOGUE_BIAS, gelu = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
               gradient = CUBLASLT_EPILOGUE_DGELU;
    const auto good = CUBLAS_STATUS_SUCCESS, bad = CUBLAS_STATUS_INVALID_VALUE,
               never = CUBLAS_STATUS_NOT_SUPPORTED;
    EXPECT_EQ(Call(bias, memory, 0, 0).status(), good);
    EXPECT_EQ(Call(bias, 0, 0, 0).status(), bad);
    EXPECT_EQ(Call(bias, memory + 1, 0, 0).status(), bad);
    EXPECT_EQ(Call(gelu, memory, memory, 16).status(), good);
    EXPECT_EQ(Call(gelu, memory, 0, 16).status(), bad);
    EXPECT_EQ(Call(gelu, memory, memory, 0).status(), bad);      // none set
    EXPECT_EQ(Call(gelu, memory, memory, 8).status(), bad);      // less than there are rows
    EXPECT_EQ(Call(gelu, memory, memory, 20).status(), bad);     // no multiple of 8
    EXPECT_EQ(Call(gelu, memory, memory + 8, 16).status(), bad); // not aligned to 16 bytes
    EXPECT_EQ(Call(gradient, 0, memory, 16).status(), good);
    EXPECT_EQ(Call(gradient, memory, 0, 16).status(), bad);
    EXPECT_EQ(Call(bias, memory, 0, 0, CUDA_R_32F).status(), never);
    EXPECT_EQ(Call(CUBLASLT_EPILOGUE_DGELU_BGRAD, memory, memory, 16).status(), never);
    Call types(gelu, memory, memory, 16);
    types.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(CUDA_R_16BF));
    EXPECT_EQ(types.status(), good);
    types.set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, int32_t(CUDA_R_32F));
    EXPECT_EQ(types.status(), bad);
    Call auxiliary(gelu, memory, memory, 16);
    auxiliary.set(CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, int32_t(CUDA_R_16F));
    EXPECT_EQ(auxiliary.status(), bad);
  });
}

TEST(StubEpilogue, FindsOperandsOutsideOfMemory) {
  expectPasses({}, [] {
    Bench bench(SHALE_EPILOGUE_GELU_GRAD, false);
    bench.matmul.epilogue.with = at(bench.gpu.allocate(256)); // too small
    ASSERT_TRUE(bench.blas.use(bench.matmul, bench.blas.candidates(bench.matmul)[0]));
    bench.blas.multiply(bench.matmul, bench.gpu.streams[0]);
    EXPECT_EQ(cuStreamSynchronize(bench.gpu.streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

// The second algorithm is the fastest, by less than the margin if the kernel takes 1 us.
TEST(StubEpilogue, ChoosesTheFaster) {
  for (auto [kernel, epilogue] : {std::pair{"50", true}, {"1", false}, {"0", false}})
    expectPasses({{"SHALE_STUB_COSTS", "100,99.5,120"}, {"SHALE_STUB_KERNEL_COST", kernel}},
                 [&, epilogue = epilogue, kernel = kernel] {
                   Bench bench(SHALE_EPILOGUE_GELU, true);
                   Choice choice = bench.choose();
                   EXPECT_FLOAT_EQ(choice.first, 100 + std::atof(kernel));
                   EXPECT_FLOAT_EQ(choice.best, epilogue ? 99.5 : choice.first);
                   EXPECT_EQ(choice.algorithm == "0", !epilogue) << choice.algorithm;
                   EXPECT_GT(bench.launches, 0);
                   EXPECT_FALSE(bench.blas.usesEpilogue(bench.matmul));
                   EXPECT_TRUE(bench.tuner.use(bench.matmul, choice.algorithm));
                   EXPECT_EQ(bench.blas.usesEpilogue(bench.matmul), epilogue);
                   EXPECT_TRUE(bench.tuner.use(bench.matmul, "0"));
                   EXPECT_FALSE(bench.blas.usesEpilogue(bench.matmul));
                 });
}

TEST(StubEpilogue, IsApartUnlessTimed) {
  expectPasses({}, [] {
    Bench bench(SHALE_EPILOGUE_BIAS, false);
    EXPECT_EQ(bench.choose(false).algorithm, "0");
    EXPECT_EQ(bench.choose(false).first, 0);
    EXPECT_EQ(bench.launches, 0);
    // A result that is not in the arena.
    Matmul inside = bench.matmul;
    bench.matmul.c = at(bench.state);
    EXPECT_EQ(bench.choose().algorithm, "0");
    bench.matmul = inside;
    bench.matmul.epilogue = {SHALE_EPILOGUE_GELU, inside.epilogue.with, at(bench.state), "k", 7, 1};
    EXPECT_EQ(bench.choose().algorithm, "0");
    EXPECT_EQ(bench.launches, 0);
    // Rows of the values before an activation that are no multiple of 16 bytes.
    bench.matmul = inside;
    bench.matmul.epilogue.before = at(bench.arena + 4096);
    bench.matmul.epilogue.kind = SHALE_EPILOGUE_GELU;
    bench.matmul.n = bench.matmul.ldb = bench.matmul.ldc = 12;
    EXPECT_EQ(bench.choose().algorithm, "0");
    EXPECT_EQ(bench.launches, 0);
  });
  // The library refuses every matmul with an epilogue.
  expectPasses({{"SHALE_STUB_FAIL", "cublasLtMatmulAlgoGetHeuristic=CUBLAS_STATUS_NOT_SUPPORTED"}},
               [] {
                 Bench bench(SHALE_EPILOGUE_BIAS, false);
                 EXPECT_EQ(bench.choose().algorithm, "0");
               });
}

TEST(StubEpilogue, TellsMatmulsApart) {
  expectPasses({}, [] {
    Bench bench(SHALE_EPILOGUE_GELU, true);
    std::string plain = "BF16 > BF16 NN 1 x 24 x 16 x 40, ld 40 16 16, aligned 64 64 64";
    EXPECT_EQ(bench.tuner.keyOf(bench.matmul), plain + ", gelu 64, before it 64");
    EXPECT_EQ(bench.tuner.keyOf(bench.matmul.alone()), plain);
    bench.matmul.epilogue.before = nullptr;
    EXPECT_EQ(bench.tuner.keyOf(bench.matmul), plain + ", gelu 64");
    bench.matmul.epilogue.kind = SHALE_EPILOGUE_BIAS;
    EXPECT_EQ(bench.tuner.keyOf(bench.matmul), plain + ", bias 64");
    // The algorithm of another epilogue, or of none.
    std::string algorithm = bench.choose().algorithm;
    bench.matmul.epilogue.kind = SHALE_EPILOGUE_GELU;
    EXPECT_FALSE(bench.tuner.use(bench.matmul, algorithm));
    EXPECT_FALSE(bench.tuner.use(bench.matmul.alone(), algorithm));
    EXPECT_FALSE(bench.tuner.use(bench.matmul.alone(), "0"));
    EXPECT_FALSE(bench.tuner.use(bench.matmul, "00"));
    EXPECT_FALSE(bench.tuner.use(bench.matmul, ""));
  });
}
