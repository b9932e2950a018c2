// The runtime's timing of matmuls, on the emulated GPU.
#include "StubTest.h"
#include "runtime/device/cuda/BlasTuner.h"

#include <cmath>

using namespace shale::stub::test;
using namespace shale::rt;
using namespace shale::rt::cuda;

namespace {

constexpr int64_t kSize = 16, kBytes = kSize * kSize * 4, kArena = 1 << 16;

/// A tuner with an arena, and a matmul whose operands are in the state.
struct Bench {
  Gpu gpu;
  CUdeviceptr workspace = gpu.allocate(SHALE_BLAS_WORKSPACE);
  CUdeviceptr arena = gpu.upload(std::vector<char>(kArena, 0));
  CUdeviceptr state = gpu.upload(std::vector<float>(3 * kSize * kSize, 3));
  Blas blas{workspace, SHALE_BLAS_WORKSPACE};
  BlasTuner tuner{blas, gpu.streams[0], "some GPU"};

  Matmul matmul(CUdeviceptr c) const {
    auto at = [](CUdeviceptr address) { return reinterpret_cast<void *>(address); };
    return {false, false, kSize, kSize, kSize, 1, at(state), kSize, at(state + kBytes),
            kSize, 0,     at(c), kSize};
  }
  Matmul matmul() const { return matmul(state + 2 * kBytes); }
  Choice choose(const Matmul &matmul, bool timed = true) {
    tuner.begin(reinterpret_cast<char *>(arena), kArena);
    Choice choice = tuner.choose(matmul, timed);
    tuner.end();
    return choice;
  }
  std::string candidate(size_t i) {
    std::string text;
    cublasLtMatmulAlgo_t algorithm = blas.candidates(matmul()).at(i);
    for (uint64_t word : algorithm.data)
      text += format("%016llx", (unsigned long long)word);
    return text;
  }
};

int endOf(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : -1; }

} // namespace

TEST(Tuner, AnotherAlgorithmMustBeFasterByAMargin) {
  EXPECT_EQ(fastest({100, 50, 60}), 1u);
  EXPECT_EQ(fastest({100, 99, 100}), 0u);
  EXPECT_EQ(fastest({100, 98, 97.9}), 2u);
  EXPECT_EQ(fastest({100, 100, 100}), 0u);
  EXPECT_EQ(fastest({INFINITY, 100, 90}), 2u);
  EXPECT_EQ(fastest({INFINITY, INFINITY}), 0u);
  EXPECT_EQ(fastest({5}), 0u);
  EXPECT_EQ(fastest({}), 0u);
  EXPECT_EQ(medianOf({3, 1, 100, 2, 4}), 3);
  EXPECT_EQ(medianOf({}), 0);
}

TEST(Tuner, ChoosesTheFastest) {
  expectPasses({{"SHALE_STUB_COSTS", "120,80,50"}}, [] {
    Bench b;
    Choice choice = b.choose(b.matmul());
    EXPECT_EQ(choice.algorithm, b.candidate(2));
    EXPECT_FLOAT_EQ(choice.first, 120);
    EXPECT_FLOAT_EQ(choice.best, 50);
    // Each algorithm, the first one again, and five rounds of the last one and each.
    EXPECT_NEAR(b.tuner.seconds(), (250 + 120 + 5 * (50 + 250)) * 1e-6, 1e-9);
  });
}

// Nine matmuls of 12 us take the least time of a measurement.
TEST(Tuner, RepeatsShortMatmuls) {
  expectPasses({{"SHALE_STUB_COSTS", "12,8,9"}}, [] {
    Bench b;
    Choice choice = b.choose(b.matmul());
    EXPECT_EQ(choice.algorithm, b.candidate(1));
    EXPECT_FLOAT_EQ(choice.first, 12);
    EXPECT_FLOAT_EQ(choice.best, 8);
    EXPECT_NEAR(b.tuner.seconds(), (29 + 12 + 5 * (9 + 9 * 29)) * 1e-6, 1e-9);
  });
}

TEST(Tuner, KeepsTheFirstOfEquals) {
  expectPasses({{"SHALE_STUB_COSTS", "100,99,100"}}, [] {
    Bench b;
    Choice choice = b.choose(b.matmul());
    EXPECT_EQ(choice.algorithm, b.candidate(0));
    EXPECT_FLOAT_EQ(choice.best, 100);
  });
}

TEST(Tuner, TimesNothingUnlessAsked) {
  expectPasses({{"SHALE_STUB_COSTS", "100,80,50"},
                {"SHALE_STUB_FAIL", "cuEventElapsedTime=CUDA_ERROR_UNKNOWN"}},
               [] {
                 Bench b;
                 Choice choice = b.choose(b.matmul(), false);
                 EXPECT_EQ(choice.algorithm, b.candidate(0));
                 EXPECT_EQ(choice.first, 0);
                 EXPECT_EQ(b.tuner.seconds(), 0);
               });
}

TEST(Tuner, ChangesNoState) {
  expectPasses({}, [] {
    Bench b;
    Matmul matmul = b.matmul();
    matmul.beta = 1; // reads C, too
    EXPECT_GT(b.choose(matmul).first, 0);
    EXPECT_EQ(b.gpu.download<float>(b.state, 3 * kSize * kSize),
              std::vector<float>(3 * kSize * kSize, 3));
    EXPECT_EQ(b.gpu.download<char>(b.arena, kArena), std::vector<char>(kArena, 0));
  });
}

TEST(Tuner, ComputesWithOrdinaryNumbers) {
  expectPasses({}, [] {
    constexpr int64_t size = 1200,
                      arenaBytes = 3 * size * size * 4; // more than one block of numbers
    Bench b;
    b.arena = b.gpu.upload(std::vector<char>(arenaBytes, 0));
    Matmul matmul = b.matmul(b.arena + 2 * size * size * 4);
    matmul.m = matmul.lda = matmul.k = size; // B stays in the state
    matmul.a = reinterpret_cast<void *>(b.arena);
    matmul.b = reinterpret_cast<void *>(b.gpu.upload(std::vector<float>(size * kSize, 3)));
    b.tuner.begin(reinterpret_cast<char *>(b.arena), arenaBytes);
    EXPECT_GT(b.tuner.choose(matmul, true).first, 0);
    std::vector<float> values = b.gpu.download<float>(b.arena, 2 * size * size);
    b.tuner.end();
    int64_t negative = 0;
    for (int64_t i = 0; i < size * size; ++i) {
      ASSERT_TRUE(std::abs(values[i]) >= 0x1p-7f && std::abs(values[i]) < 2.1f) << values[i];
      negative += values[i] < 0;
    }
    EXPECT_GT(negative, size * size / 3);
    EXPECT_LT(negative, size * size * 2 / 3);
    // Behind A nothing was written, and at the end all is as before.
    EXPECT_EQ(std::vector<float>(values.begin() + size * size, values.end()),
              std::vector<float>(size * size, 0));
    EXPECT_EQ(b.gpu.download<char>(b.arena, arenaBytes), std::vector<char>(arenaBytes, 0));
  });
}

// A result in the arena stays where it is. Elsewhere it needs room in the arena: here none is left.
TEST(Tuner, DoesNotTimeWithoutRoomForTheResult) {
  expectPasses({{"SHALE_STUB_COSTS", "100,80,50"}}, [] {
    Bench b;
    b.tuner.begin(reinterpret_cast<char *>(b.arena), kBytes);
    EXPECT_EQ(b.tuner.choose(b.matmul(b.arena), true).algorithm, b.candidate(2));
    EXPECT_EQ(b.tuner.choose(b.matmul(b.arena + 64), true).algorithm, b.candidate(0));
    Matmul inside = b.matmul();
    inside.a = reinterpret_cast<void *>(b.arena); // the only place for the result
    EXPECT_EQ(b.tuner.choose(inside, true).first, 0);
    b.tuner.end();
    b.tuner.begin(nullptr, 0); // a program without an arena
    EXPECT_EQ(b.tuner.choose(b.matmul(), true).first, 0);
    b.tuner.end();
  });
}

TEST(Tuner, TellsMatmulsApart) {
  expectPasses({}, [] {
    Bench b;
    Matmul matmul = b.matmul();
    std::string key = b.tuner.keyOf(matmul);
    EXPECT_EQ(key, "F32 > F32 NN 1 x 16 x 16 x 16, ld 16 16 16, aligned 64 64 64");
    Matmul other = matmul;
    other.beta = 1;
    EXPECT_EQ(b.tuner.keyOf(other), key + ", added to C");
    other = matmul;
    other.c = static_cast<char *>(matmul.c) + 16;
    EXPECT_EQ(b.tuner.keyOf(other), "F32 > F32 NN 1 x 16 x 16 x 16, ld 16 16 16, aligned 64 64 16");
    other.c = static_cast<char *>(matmul.c) + 256; // no other than 64
    EXPECT_EQ(b.tuner.keyOf(other), key);
    EXPECT_EQ(b.tuner.machine().rfind("some GPU, cuBLASLt 13.", 0), 0u) << b.tuner.machine();
  });
}

TEST(Tuner, UsesTheChoice) {
  expectPasses({}, [] {
    Bench b;
    // Sums of these depend on the algorithm.
    std::vector<float> values(3 * kSize * kSize);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = 1 / (1 + float(i % 97));
    b.state = b.gpu.upload(values);
    auto run = [&] {
      b.blas.multiply(b.matmul(), b.gpu.streams[0]);
      EXPECT_CU(cuStreamSynchronize(b.gpu.streams[0]));
      return b.gpu.download<float>(b.state + 2 * kBytes, kSize * kSize);
    };
    std::vector<std::vector<float>> results;
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_TRUE(b.tuner.use(b.matmul(), b.candidate(i)));
      results.push_back(run());
    }
    EXPECT_NE(results[0], results[1]);
    EXPECT_NE(results[1], results[2]);
    EXPECT_TRUE(b.tuner.use(b.matmul(), b.candidate(0)));
    EXPECT_EQ(run(), results[0]);
  });
}

// The halves of this sum overflow in f16. The sum does not.
TEST(Tuner, KeepsPartsOfSumsInF32) {
  expectPasses({{"SHALE_STUB_COSTS", "100,100,50"}}, [] {
    Bench b;
    constexpr uint16_t two = 0x4000, large = 0x7bff; // 65504
    std::vector<uint16_t> values(2 * kSize * kSize, two);
    for (int64_t i = 0; i < kSize * kSize; ++i)
      values[i] = i % kSize < kSize / 2 ? large : large | 0x8000;
    b.state = b.gpu.upload(values);
    Matmul matmul = b.matmul(b.gpu.allocate(kBytes));
    matmul.type = matmul.resultType = Dtype::F16;
    matmul.b = reinterpret_cast<void *>(b.state + kSize * kSize * 2);
    std::vector<cublasLtMatmulAlgo_t> all = b.blas.candidates(matmul);
    EXPECT_EQ(all.size(), 3u);
    for (const cublasLtMatmulAlgo_t &algorithm : all) {
      EXPECT_TRUE(b.blas.tryMultiply(matmul, algorithm, b.gpu.streams[0]));
      EXPECT_CU(cuStreamSynchronize(b.gpu.streams[0]));
      EXPECT_EQ(b.gpu.download<uint16_t>(CUdeviceptr(matmul.c), kSize * kSize),
                std::vector<uint16_t>(kSize * kSize, 0));
    }
  });
}

TEST(Tuner, RefusesForeignAlgorithms) {
  expectPasses({}, [] {
    Bench b;
    std::string good = b.candidate(1), changed = good, upper = good;
    changed[20] = changed[20] == '0' ? '1' : '0';
    upper[3] = 'X';
    for (const std::string &bad :
         {std::string(), std::string("0"), good.substr(1), good + "0", changed, upper,
          std::string(good.size(), '0'), std::string(good.size(), 'f'), std::string(1 << 20, 'a')})
      EXPECT_FALSE(b.tuner.use(b.matmul(), bad)) << bad.substr(0, 200);
    Matmul other = b.matmul();
    other.m = 8;
    EXPECT_FALSE(b.tuner.use(other, good)); // another matmul's
    // The refused ones had no effect.
    b.blas.multiply(b.matmul(), b.gpu.streams[0]);
    EXPECT_CU(cuStreamSynchronize(b.gpu.streams[0]));
  });
  // More workspace than there is.
  expectPasses({}, [] {
    Bench b;
    Blas small(b.workspace, 64 << 10);
    BlasTuner tuner(small, b.gpu.streams[0], "some GPU");
    EXPECT_FALSE(tuner.use(b.matmul(), b.candidate(0)));
    EXPECT_TRUE(tuner.use(b.matmul(), b.candidate(1)));
  });
  expectPasses({{"SHALE_STUB_FAIL", "cublasLtMatmulAlgoCheck=CUBLAS_STATUS_NOT_SUPPORTED"}}, [] {
    Bench b;
    EXPECT_FALSE(b.tuner.use(b.matmul(), b.candidate(1)));
  });
}

TEST(Tuner, PassesOverAnAlgorithmThatIsRefused) {
  expectPasses({{"SHALE_STUB_COSTS", "100,110,50"},
                {"SHALE_STUB_FAIL", "cublasLtMatmul@3=CUBLAS_STATUS_NOT_SUPPORTED"}},
               [] {
                 Bench b;
                 EXPECT_EQ(b.choose(b.matmul()).algorithm, b.candidate(0));
               });
  expectPasses({{"SHALE_STUB_FAIL", "cublasLtMatmul@1=CUBLAS_STATUS_NOT_SUPPORTED"}}, [] {
    Bench b;
    Choice choice = b.choose(b.matmul());
    EXPECT_EQ(choice.algorithm, b.candidate(1));
    EXPECT_EQ(choice.first, 0);
  });
  // None runs: the step says why.
  expectPasses({{"SHALE_STUB_FAIL", "cublasLtMatmul=CUBLAS_STATUS_NOT_SUPPORTED"}}, [] {
    Bench b;
    EXPECT_EQ(b.choose(b.matmul()).algorithm, b.candidate(0));
  });
}

TEST(Tuner, FailuresEndTheProcess) {
  for (const char *fault :
       {"cuEventElapsedTime=CUDA_ERROR_UNKNOWN", "cuEventCreate=CUDA_ERROR_INVALID_VALUE",
        "cuEventRecord@2=CUDA_ERROR_UNKNOWN", "cuMemcpyHtoDAsync=CUDA_ERROR_UNKNOWN",
        "cuStreamSynchronize@2=CUDA_ERROR_LAUNCH_FAILED",
        "cublasLtMatmulAlgoGetHeuristic=CUBLAS_STATUS_NOT_SUPPORTED",
        "cublasLtMatmul@5=CUBLAS_STATUS_EXECUTION_FAILED"})
    EXPECT_EQ(endOf(run({{"SHALE_STUB_FAIL", fault}},
                        [] {
                          Bench b;
                          Matmul matmul = b.matmul();
                          matmul.a = reinterpret_cast<void *>(b.arena + kBytes);
                          b.choose(matmul);
                        })),
              SHALE_EXIT_INTERNAL)
        << fault;
  // Work that finds too little memory, for a kernel that is loaded late for example.
  EXPECT_EQ(endOf(run({{"SHALE_STUB_FAIL", "cuEventRecord@2=CUDA_ERROR_OUT_OF_MEMORY"}},
                      [] {
                        Bench b;
                        b.choose(b.matmul());
                      })),
            SHALE_EXIT_NO_FIT);
}
