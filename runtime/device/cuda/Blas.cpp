// Matrix products by cuBLASLt, with one algorithm per shape.
//
// cuBLASLt's matrices are column-major. A row-major matrix is the column-major form of its
// transpose, so C = op(A) op(B) is computed as C^T = op(B)^T op(A)^T.
#include "runtime/device/cuda/Blas.h"
#include "runtime/device/cuda/Driver.h"

#include <cublasLt.h>
#include <map>
#include <tuple>

namespace shale::rt::cuda {

namespace {

#define SHALE_BLAS_FUNCTIONS(X)                                                                    \
  X(cublasLtCreate)                                                                                \
  X(cublasLtGetStatusString)                                                                       \
  X(cublasLtMatmulDescCreate)                                                                      \
  X(cublasLtMatmulDescSetAttribute)                                                                \
  X(cublasLtMatrixLayoutCreate)                                                                    \
  X(cublasLtMatrixLayoutSetAttribute)                                                              \
  X(cublasLtMatmulPreferenceCreate)                                                                \
  X(cublasLtMatmulPreferenceSetAttribute)                                                          \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                \
  X(cublasLtMatmul)

struct Library {
  SHALE_BLAS_FUNCTIONS(SHALE_DECLARE_FUNCTION)
};

/// Opens cuBLASLt once. Throws with exit code 69.
const Library &blasLibrary() {
  static const Library opened = [] {
    DynamicLibrary library("libcublasLt.so.13", "this program needs cuBLASLt of CUDA 13");
    Library functions;
    SHALE_BLAS_FUNCTIONS(SHALE_FIND_FUNCTION)
    return functions;
  }();
  return opened;
}

cudaDataType_t typeOf(Dtype type) {
  return type == Dtype::BF16 ? CUDA_R_16BF : type == Dtype::F16 ? CUDA_R_16F : CUDA_R_32F;
}

/// Returns the largest power of two, up to 256, of which an address is a multiple.
uint32_t alignmentOf(const void *address) {
  auto bits = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(bits & -bits);
}

/// Key of a prepared product: shapes, types and the alignment of the addresses.
using Key = std::tuple<bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
                       Dtype, Dtype, uint32_t, uint32_t, uint32_t>;

Key keyOf(const Product &p) {
  return {p.transposeA,
          p.transposeB,
          p.batch,
          p.m,
          p.n,
          p.k,
          p.lda,
          p.ldb,
          p.ldc,
          p.type,
          p.resultType,
          alignmentOf(p.a),
          alignmentOf(p.b),
          alignmentOf(p.c)};
}

/// A product that is ready to be enqueued. Descriptors live as long as the process.
struct Prepared {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm = {};
};

} // namespace

struct Blas::State {
  const Library &library = blasLibrary();
  cublasLtHandle_t handle = nullptr;
  CUdeviceptr workspace = 0;
  size_t workspaceBytes = 0;
  std::map<Key, Prepared> prepared;

  void must(cublasStatus_t status, const char *what, const Product &p) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      die(SHALE_EXIT_INTERNAL,
          format("cuBLASLt cannot %s %lld x a product of %lld x %lld x %lld, %s: %s", what,
                 (long long)p.batch, (long long)p.m, (long long)p.n, (long long)p.k, nameOf(p.type),
                 library.cublasLtGetStatusString(status)));
  }

  /// Makes the layout of `batch` column-major matrices that follow one another.
  cublasLtMatrixLayout_t layout(const Product &p, Dtype type, int64_t rows, int64_t columns,
                                int64_t leading) const {
    cublasLtMatrixLayout_t made = nullptr;
    must(library.cublasLtMatrixLayoutCreate(&made, typeOf(type), rows, columns, leading),
         "describe", p);
    if (p.batch == 1)
      return made;
    int32_t count = static_cast<int32_t>(p.batch);
    int64_t stride = leading * columns;
    must(library.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count,
                                                  sizeof(count)),
         "describe", p);
    must(library.cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                  &stride, sizeof(stride)),
         "describe", p);
    return made;
  }

  const Prepared &prepare(const Product &p) {
    auto [place, isNew] = prepared.try_emplace(keyOf(p));
    Prepared &made = place->second;
    if (!isNew)
      return made;
    must(library.cublasLtMatmulDescCreate(&made.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F),
         "describe", p);
    cublasOperation_t ofFirst = p.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N,
                      ofSecond = p.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
    must(library.cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                                &ofFirst, sizeof(ofFirst)),
         "describe", p);
    must(library.cublasLtMatmulDescSetAttribute(made.operation, CUBLASLT_MATMUL_DESC_TRANSB,
                                                &ofSecond, sizeof(ofSecond)),
         "describe", p);
    made.a = layout(p, p.type, p.transposeB ? p.k : p.n, p.transposeB ? p.n : p.k, p.ldb);
    made.b = layout(p, p.type, p.transposeA ? p.m : p.k, p.transposeA ? p.k : p.m, p.lda);
    made.c = layout(p, p.resultType, p.n, p.m, p.ldc);
    choose(p, made);
    return made;
  }

  /// Takes the first algorithm of the heuristic.
  void choose(const Product &p, Prepared &made) const {
    cublasLtMatmulPreference_t preference = nullptr;
    must(library.cublasLtMatmulPreferenceCreate(&preference), "describe", p);
    auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto &value) {
      must(library.cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof(value)),
           "describe", p);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspaceBytes);
    // cuBLASLt's first matrix is the product's second one.
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignmentOf(p.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignmentOf(p.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignmentOf(p.c));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignmentOf(p.c));
    cublasLtMatmulHeuristicResult_t found = {};
    int count = 0;
    must(library.cublasLtMatmulAlgoGetHeuristic(handle, made.operation, made.a, made.b, made.c,
                                                made.c, preference, 1, &found, &count),
         "find an algorithm for", p);
    must(count > 0 ? found.state : CUBLAS_STATUS_NOT_SUPPORTED, "find an algorithm for", p);
    made.algorithm = found.algo;
  }
};

Blas::Blas(CUdeviceptr workspace, int64_t bytes) : state(std::make_unique<State>()) {
  state->workspace = workspace;
  state->workspaceBytes = bytes;
  cublasStatus_t status = state->library.cublasLtCreate(&state->handle);
  if (status != CUBLAS_STATUS_SUCCESS)
    fail(SHALE_EXIT_UNAVAILABLE, "cuBLASLt does not start: %s",
         state->library.cublasLtGetStatusString(status));
}

Blas::~Blas() = default;

void Blas::multiply(const Product &p, CUstream stream) {
  const Prepared &ready = state->prepare(p);
  state->must(state->library.cublasLtMatmul(
                  state->handle, ready.operation, &p.alpha, p.b, ready.a, p.a, ready.b, &p.beta,
                  p.c, ready.c, p.c, ready.c, &ready.algorithm,
                  reinterpret_cast<void *>(state->workspace), state->workspaceBytes, stream),
              "compute", p);
}

} // namespace shale::rt::cuda
