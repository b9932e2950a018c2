// Matmuls of the emulated cuBLASLt against a double loop.
#include "Floats.h"
#include "StubTest.h"
#include <csignal>
#include <cublasLt.h>
#include <optional>
#include <random>

using namespace shale::stub;
using namespace shale::stub::test;

namespace {

/// A matmul to make. Shapes are those of op(A), op(B) and D.
struct Case {
  int64_t m = 5, n = 7, k = 33;
  bool transA = false, transB = false, rowMajor = false;
  cudaDataType type = CUDA_R_32F, result = CUDA_R_32F;
  std::optional<cudaDataType> typeOfB = {}; // otherwise `type`
  int batch = 1, padding = 0;
  float alpha = 1, beta = 0;
};

struct Matrix {
  int64_t rows, cols, ld, stride;
  bool rowMajor;
  cudaDataType type;
  std::vector<float> values; // rounded to the type

  Matrix(const Case &c, cudaDataType type, int64_t rows, int64_t cols, std::mt19937 &random)
      : rows(rows), cols(cols), ld((c.rowMajor ? cols : rows) + c.padding),
        stride(ld * (c.rowMajor ? rows : cols) + c.padding), rowMajor(c.rowMajor), type(type),
        values(stride * c.batch) {
    std::normal_distribution<float> normal;
    for (float &value : values)
      value = read(write(normal(random)));
  }
  bool is8Bit() const { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }
  size_t size() const { return type == CUDA_R_32F ? 4 : is8Bit() ? 1 : 2; }
  /// Returns the bits of the nearest finite number.
  uint32_t nearest(float value) const {
    uint32_t best = 0;
    for (uint32_t bits = 0; bits < 256; ++bits)
      if (std::abs(read(bits) - value) < std::abs(read(best) - value))
        best = bits;
    return best;
  }
  uint32_t write(float value) const {
    return is8Bit()              ? nearest(value)
           : type == CUDA_R_32F  ? bitsOf(value)
           : type == CUDA_R_16BF ? BFloat::of(value).bits
                                 : Half::of(value).bits;
  }
  float read(uint32_t bits) const {
    return type == CUDA_R_8F_E4M3   ? float(E4M3{uint8_t(bits)})
           : type == CUDA_R_8F_E5M2 ? float(E5M2{uint8_t(bits)})
           : type == CUDA_R_32F     ? floatOf(bits)
           : type == CUDA_R_16BF    ? float(BFloat{uint16_t(bits)})
                                    : float(Half{uint16_t(bits)});
  }
  int64_t at(int64_t batch, int64_t i, int64_t j) const {
    return batch * stride + (rowMajor ? i * ld + j : j * ld + i);
  }
  CUdeviceptr upload(Gpu &gpu) const {
    std::vector<char> bytes(values.size() * size());
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = write(values[i]);
      std::memcpy(&bytes[i * size()], &bits, size());
    }
    return gpu.upload(bytes);
  }
  void download(Gpu &gpu, CUdeviceptr memory) {
    std::vector<char> bytes = gpu.download<char>(memory, values.size() * size());
    for (size_t i = 0; i < values.size(); ++i) {
      uint32_t bits = 0;
      std::memcpy(&bits, &bytes[i * size()], size());
      values[i] = read(bits);
    }
  }
  cublasLtMatrixLayout_t layout(int32_t batch) const {
    cublasLtMatrixLayout_t made = nullptr;
    EXPECT_EQ(cublasLtMatrixLayoutCreate(&made, type, rows, cols, ld), CUBLAS_STATUS_SUCCESS);
    int32_t order = rowMajor ? CUBLASLT_ORDER_ROW : CUBLASLT_ORDER_COL;
    for (auto [attribute, value, bytes] :
         {std::tuple<cublasLtMatrixLayoutAttribute_t, const void *, size_t>{
              CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof(order)},
          {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)},
          {CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)}})
      EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(made, attribute, value, bytes),
                CUBLAS_STATUS_SUCCESS);
    return made;
  }
};

/// A matmul with its handles.
struct Matmul {
  Gpu &gpu;
  Case c;
  std::mt19937 random{7};
  Matrix a, b, d;
  cublasLtHandle_t handle = nullptr;
  cublasLtMatmulDesc_t description = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatrixLayout_t aLayout, bLayout, dLayout;
  CUdeviceptr aMemory, bMemory, dMemory, workspace;
  float scale = 1; // the product of the factors of multiplyBy()

  Matmul(Gpu &gpu, const Case &c, uint32_t reductions = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)
      : gpu(gpu), c(c), a(c, c.type, c.transA ? c.k : c.m, c.transA ? c.m : c.k, random),
        b(c, c.typeOfB.value_or(c.type), c.transB ? c.n : c.k, c.transB ? c.k : c.n, random),
        d(c, c.result, c.m, c.n, random) {
    EXPECT_EQ(cublasLtCreate(&handle), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              CUBLAS_STATUS_SUCCESS);
    transpose(CUBLASLT_MATMUL_DESC_TRANSA, c.transA);
    transpose(CUBLASLT_MATMUL_DESC_TRANSB, c.transB);
    EXPECT_EQ(cublasLtMatmulPreferenceCreate(&preference), CUBLAS_STATUS_SUCCESS);
    limit(1 << 20);
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference,
                                                   CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                                   &reductions, sizeof(reductions)),
              CUBLAS_STATUS_SUCCESS);
    aLayout = a.layout(c.batch), bLayout = b.layout(c.batch), dLayout = d.layout(c.batch);
    aMemory = a.upload(gpu), bMemory = b.upload(gpu), dMemory = d.upload(gpu);
    workspace = gpu.allocate(1 << 20);
  }
  void transpose(cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    int32_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description, attribute, &operation, sizeof(operation)),
              CUBLAS_STATUS_SUCCESS);
  }
  void multiplyBy(cublasLtMatmulDescAttributes_t attribute, float factor) {
    CUdeviceptr memory = gpu.upload(std::vector<float>{factor});
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(description, attribute, &memory, sizeof(memory)),
              CUBLAS_STATUS_SUCCESS);
    scale *= factor;
  }
  void limit(uint64_t bytes) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(
                  preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &bytes, sizeof(bytes)),
              CUBLAS_STATUS_SUCCESS);
  }
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms(cublasStatus_t expected) {
    std::vector<cublasLtMatmulHeuristicResult_t> results(8);
    int count = 0;
    EXPECT_EQ(cublasLtMatmulAlgoGetHeuristic(handle, description, aLayout, bLayout, dLayout,
                                             dLayout, preference, 8, results.data(), &count),
              expected);
    results.resize(count);
    return results;
  }
  cublasStatus_t multiply(const cublasLtMatmulAlgo_t *algo, CUdeviceptr workspace,
                          size_t workspaceBytes) {
    auto pointer = [](CUdeviceptr address) { return reinterpret_cast<void *>(address); };
    return cublasLtMatmul(handle, description, &c.alpha, pointer(aMemory), aLayout,
                          pointer(bMemory), bLayout, &c.beta, pointer(dMemory), dLayout,
                          pointer(dMemory), dLayout, algo, pointer(workspace), workspaceBytes,
                          reinterpret_cast<cudaStream_t>(gpu.streams[0]));
  }
  /// Runs an algorithm and compares all elements, those between rows too.
  void check(const cublasLtMatmulAlgo_t *algo) {
    Matrix expected = d;
    for (int64_t batch = 0; batch < c.batch; ++batch)
      for (int64_t i = 0; i < c.m; ++i)
        for (int64_t j = 0; j < c.n; ++j) {
          double sum = 0;
          for (int64_t l = 0; l < c.k; ++l)
            sum += double(a.values[c.transA ? a.at(batch, l, i) : a.at(batch, i, l)]) *
                   b.values[c.transB ? b.at(batch, j, l) : b.at(batch, l, j)];
          float &value = expected.values[d.at(batch, i, j)];
          value = float(c.alpha * scale * sum + (c.beta == 0 ? 0 : c.beta * value));
        }
    ASSERT_EQ(multiply(algo, workspace, 1 << 20), CUBLAS_STATUS_SUCCESS);
    CHECK_CU(cuStreamSynchronize(gpu.streams[0]));
    Matrix made = d;
    made.download(gpu, dMemory);
    double unit = c.result == CUDA_R_32F ? 0x1p-24 : c.result == CUDA_R_16BF ? 0x1p-8 : 0x1p-11;
    // Errors of the f32 sum are below k u |a| |b|, here at most some 1e-5.
    for (size_t i = 0; i < made.values.size(); ++i)
      ASSERT_NEAR(made.values[i], expected.values[i],
                  2e-5 + 1.01 * unit * std::abs(expected.values[i]))
          << "element " << i;
  }
};

} // namespace

TEST(StubBlas, MultipliesAllFormsAndTypes) {
  expectPasses({}, [] {
    Gpu gpu;
    int matmuls = 0;
    for (auto [type, result] : {std::pair{CUDA_R_32F, CUDA_R_32F},
                                {CUDA_R_16BF, CUDA_R_16BF},
                                {CUDA_R_16BF, CUDA_R_32F},
                                {CUDA_R_16F, CUDA_R_16F},
                                {CUDA_R_16F, CUDA_R_32F}})
      for (int bits = 0; bits < 32; ++bits) {
        Case c;
        c.type = type, c.result = result;
        c.transA = bits & 1, c.transB = bits & 2, c.rowMajor = bits & 4;
        c.batch = bits & 8 ? 3 : 1;
        c.padding = bits & 8 ? 3 : 0;
        if (bits & 16)
          c.m = 24, c.n = 40, c.k = 16, c.padding = 8, c.alpha = 0.5f, c.beta = -2;
        Matmul first(gpu, c);
        size_t count = first.algorithms(CUBLAS_STATUS_SUCCESS).size();
        ASSERT_EQ(count, bits & 16 ? 3u : 1u); // few take unaligned rows
        for (size_t i = 0; i < count; ++i, ++matmuls) {
          Matmul matmul(gpu, c);
          auto algorithms = matmul.algorithms(CUBLAS_STATUS_SUCCESS);
          matmul.check(&algorithms[i].algo);
          ASSERT_FALSE(testing::Test::HasFailure()) << type << " " << bits;
        }
      }
    EXPECT_EQ(matmuls, 5 * 16 * (1 + 3));
  });
}

TEST(StubBlas, MultipliesBytesWithScales) {
  expectPasses({}, [] {
    Gpu gpu;
    Case c;
    c.m = 32, c.n = 48, c.k = 64, c.transA = true;
    for (auto [a, b] : {std::pair{CUDA_R_8F_E4M3, CUDA_R_8F_E4M3},
                        {CUDA_R_8F_E5M2, CUDA_R_8F_E4M3},
                        {CUDA_R_8F_E4M3, CUDA_R_8F_E5M2}})
      for (cudaDataType result : {CUDA_R_16BF, CUDA_R_16F, CUDA_R_32F}) {
        c.type = a, c.typeOfB = b, c.result = result;
        Matmul matmul(gpu, c);
        matmul.multiplyBy(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 0.25f);
        matmul.multiplyBy(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, 1.5f);
        matmul.check(&matmul.algorithms(CUBLAS_STATUS_SUCCESS)[0].algo);
        ASSERT_FALSE(testing::Test::HasFailure()) << a << " " << b << " " << result;
      }
    // What GPUs of capability 9.0 do not have.
    c.type = c.typeOfB.emplace(CUDA_R_8F_E4M3), c.result = CUDA_R_16BF;
    auto expectRefused = [&](Case wrong) {
      EXPECT_TRUE(Matmul(gpu, wrong).algorithms(CUBLAS_STATUS_NOT_SUPPORTED).empty());
    };
    Case layout = c, sizes = c, wide = c, mixed = c;
    layout.transA = false, sizes.n = 40;
    wide.type = wide.typeOfB.emplace(CUDA_R_8F_E5M2);
    mixed.typeOfB = CUDA_R_16BF;
    for (const Case &wrong : {layout, sizes, wide, mixed})
      expectRefused(wrong);
    // Only these have scales.
    c.type = c.typeOfB.emplace(CUDA_R_16BF);
    Matmul scaled(gpu, c);
    scaled.multiplyBy(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, 2);
    EXPECT_TRUE(scaled.algorithms(CUBLAS_STATUS_NOT_SUPPORTED).empty());
  });
}

TEST(StubBlas, ChoosesByWorkspaceAndAlignment) {
  expectPasses({}, [] {
    Gpu gpu;
    Case c;
    c.m = c.n = c.k = 16;
    Matmul matmul(gpu, c);
    auto all = matmul.algorithms(CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(all.size(), 3u);
    EXPECT_GT(all[0].workspaceSize, all[1].workspaceSize);
    matmul.limit(all[0].workspaceSize - 1);
    EXPECT_EQ(matmul.algorithms(CUBLAS_STATUS_SUCCESS).size(), 2u);
    matmul.limit(0);
    EXPECT_EQ(matmul.algorithms(CUBLAS_STATUS_SUCCESS).size(), 1u);
    // An address that the algorithm cannot take.
    matmul.aMemory += 4;
    EXPECT_EQ(matmul.multiply(&all[0].algo, matmul.workspace, 1 << 20),
              CUBLAS_STATUS_INVALID_VALUE);
  });
}

// Unless the preference forbids it, parts of a sum are rounded to the type of the result.
TEST(StubBlas, RoundsPartsOfSumsIfAllowed) {
  expectPasses({}, [] {
    Gpu gpu;
    for (cudaDataType result : {CUDA_R_32F, CUDA_R_16F, CUDA_R_16BF})
      for (uint32_t reductions :
           {CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE,
            CUBLASLT_REDUCTION_SCHEME_MASK}) {
        Case c;
        c.m = c.n = 16, c.k = 1024;
        c.type = result == CUDA_R_32F ? CUDA_R_16F : result, c.result = result;
        std::vector<std::vector<float>> made;
        for (size_t i = 0; i < 3; ++i) {
          Matmul matmul(gpu, c, reductions);
          auto algorithms = matmul.algorithms(CUBLAS_STATUS_SUCCESS);
          ASSERT_EQ(algorithms.size(), 3u);
          EXPECT_EQ(matmul.multiply(&algorithms[i].algo, matmul.workspace, 1 << 20),
                    CUBLAS_STATUS_SUCCESS);
          CHECK_CU(cuStreamSynchronize(gpu.streams[0]));
          matmul.d.download(gpu, matmul.dMemory);
          made.push_back(matmul.d.values);
        }
        int differ = 0;
        for (size_t i = 0; i < made[0].size(); ++i)
          differ += std::abs(made[2][i] - made[0][i]) > 0x1p-13f * std::abs(made[0][i]);
        bool rounds = result != CUDA_R_32F && reductions != CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
        EXPECT_EQ(differ > 32, rounds) << result << " " << reductions << ": " << differ;
      }
  });
}

TEST(StubBlas, ChecksAlgorithms) {
  expectPasses({}, [] {
    Gpu gpu;
    Case c;
    c.m = c.n = c.k = 16;
    Matmul matmul(gpu, c);
    auto check = [](Matmul &p, const cublasLtMatmulAlgo_t &algo, uint64_t bytes) {
      cublasLtMatmulHeuristicResult_t result = {};
      cublasStatus_t status = cublasLtMatmulAlgoCheck(p.handle, p.description, p.aLayout, p.bLayout,
                                                      p.dLayout, p.dLayout, &algo, &result);
      EXPECT_EQ(result.workspaceSize, bytes);
      return status;
    };
    auto all = matmul.algorithms(CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(all.size(), 3u);
    for (auto &one : all)
      EXPECT_EQ(check(matmul, one.algo, one.workspaceSize), CUBLAS_STATUS_SUCCESS);
    cublasLtMatmulAlgo_t bad = all[1].algo;
    bad.data[7] ^= 1;
    EXPECT_EQ(check(matmul, bad, 0), CUBLAS_STATUS_INVALID_VALUE);
    c.m = 32;
    Matmul other(gpu, c);
    EXPECT_EQ(check(other, all[1].algo, 0), CUBLAS_STATUS_INVALID_VALUE);
  });
}

TEST(StubBlas, TakesTheTimeThatIsDeclared) {
  auto times = [] {
    Gpu gpu;
    Case c;
    c.m = c.n = c.k = 16;
    Matmul matmul(gpu, c);
    auto all = matmul.algorithms(CUBLAS_STATUS_SUCCESS);
    CUevent start, end;
    CHECK_CU(cuEventCreate(&start, 0));
    CHECK_CU(cuEventCreate(&end, 0));
    const float expected[] = {0.1f, 7.5f, 0.02f};
    for (size_t i = 0; i < 3; ++i) {
      float milliseconds = -1;
      CHECK_CU(cuEventRecord(start, gpu.streams[0]));
      EXPECT_EQ(matmul.multiply(&all[i].algo, matmul.workspace, 1 << 20), CUBLAS_STATUS_SUCCESS);
      CHECK_CU(cuEventRecord(end, gpu.streams[0]));
      CHECK_CU(cuEventSynchronize(end));
      CHECK_CU(cuEventElapsedTime(&milliseconds, start, end));
      EXPECT_FLOAT_EQ(milliseconds, expected[i]);
    }
  };
  expectPasses({{"SHALE_STUB_COSTS", "100,7500,20"}}, times);
  for (const char *bad : {"100", "1,2,3,4", "1,2,x", "1,-2,3"})
    EXPECT_TRUE(diedOf(run({{"SHALE_STUB_COSTS", bad}}, times), SIGABRT)) << bad;
}

TEST(StubBlas, DoesNotReadTheResultWithoutBeta) {
  expectPasses({}, [] {
    Gpu gpu;
    Matmul matmul(gpu, Case());
    CHECK_CU(cuMemsetD8Async(matmul.dMemory, 0xff, 5 * 7 * 4, gpu.streams[0])); // NaN
    matmul.check(nullptr);
  });
}

TEST(StubBlas, RejectsBadCalls) {
  expectPasses({}, [] {
    Gpu gpu;
    Case c;
    c.m = c.n = c.k = 16;
    Matmul matmul(gpu, c);
    auto all = matmul.algorithms(CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(all.size(), 3u);
    cublasLtMatmulAlgo_t bad = all[0].algo;
    bad.data[3] ^= 1;
    EXPECT_EQ(matmul.multiply(&bad, matmul.workspace, 1 << 20), CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(matmul.multiply(&all[0].algo, matmul.workspace, all[0].workspaceSize - 1),
              CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(matmul.multiply(&all[0].algo, matmul.workspace + 16, 1 << 19),
              CUBLAS_STATUS_INVALID_VALUE);
    // An algorithm of another problem.
    c.m = 32, c.k = 24;
    Matmul other(gpu, c);
    EXPECT_EQ(other.multiply(&all[0].algo, other.workspace, 1 << 20), CUBLAS_STATUS_INVALID_VALUE);
    // Shapes that do not fit, and types that nobody multiplies.
    std::swap(other.aLayout, other.dLayout);
    other.algorithms(CUBLAS_STATUS_INVALID_VALUE);
    c.result = CUDA_R_16F;
    Matmul types(gpu, c);
    types.algorithms(CUBLAS_STATUS_NOT_SUPPORTED);
    cublasLtEpilogue_t gelu = CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    EXPECT_EQ(
        cublasLtMatmulDescSetAttribute(matmul.description, CUBLASLT_MATMUL_DESC_EPILOGUE, &gelu, 4),
        CUBLAS_STATUS_SUCCESS);
    matmul.algorithms(CUBLAS_STATUS_NOT_SUPPORTED);
    EXPECT_EQ(
        cublasLtMatmulDescSetAttribute(matmul.description, CUBLASLT_MATMUL_DESC_EPILOGUE, &gelu, 8),
        CUBLAS_STATUS_INVALID_VALUE);
  });
}

TEST(StubBlas, FindsWorkspaceThatIsTooSmall) {
  expectPasses({}, [] {
    Gpu gpu;
    Case c;
    c.m = c.n = c.k = 16;
    Matmul matmul(gpu, c);
    auto all = matmul.algorithms(CUBLAS_STATUS_SUCCESS);
    CUdeviceptr small = gpu.allocate(1024);
    // The call states more than there is.
    ASSERT_EQ(matmul.multiply(&all[0].algo, small, 1 << 20), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(cuStreamSynchronize(gpu.streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
  });
}

TEST(StubBlas, FailsOnRequest) {
  expectPasses({{"SHALE_STUB_FAIL", "cublasLtMatmul@2=CUBLAS_STATUS_EXECUTION_FAILED"}}, [] {
    Gpu gpu;
    Matmul matmul(gpu, Case());
    EXPECT_EQ(matmul.multiply(nullptr, 0, 0), CUBLAS_STATUS_SUCCESS);
    EXPECT_EQ(matmul.multiply(nullptr, 0, 0), CUBLAS_STATUS_EXECUTION_FAILED);
    EXPECT_EQ(matmul.multiply(nullptr, 0, 0), CUBLAS_STATUS_SUCCESS);
  });
}
