// Matmuls by cuBLASLt, with one algorithm per shape.
//
// cuBLASLt's matrices are column-major. A row-major matrix is the column-major form of its
// transpose, so C = op(A) op(B) is computed as C^T = op(B)^T op(A)^T.
#include "runtime/device/cuda/Blas.h"
#include "runtime/device/cuda/Driver.h"

#include <map>
#include <tuple>

namespace shale::rt::cuda {

namespace {

#define SHALE_BLAS_FUNCTIONS(X)                                                                    \
  X(cublasLtCreate)                                                                                \
  X(cublasLtGetStatusString)                                                                       \
  X(cublasLtGetVersion)                                                                            \
  X(cublasLtMatmulDescCreate)                                                                      \
  X(cublasLtMatmulDescSetAttribute)                                                                \
  X(cublasLtMatrixLayoutCreate)                                                                    \
  X(cublasLtMatrixLayoutSetAttribute)                                                              \
  X(cublasLtMatmulPreferenceCreate)                                                                \
  X(cublasLtMatmulPreferenceDestroy)                                                               \
  X(cublasLtMatmulPreferenceSetAttribute)                                                          \
  X(cublasLtMatmulAlgoGetHeuristic)                                                                \
  X(cublasLtMatmulAlgoCheck)                                                                       \
  X(cublasLtMatmul)

struct Library {
  SHALE_BLAS_FUNCTIONS(SHALE_DECLARE_FUNCTION)
};

constexpr size_t kLeastVersion = 130100; // that of the measurements in docs/measurements/h200.md

std::string versionText(size_t version) {
  return format("%zu.%zu.%zu", version / 10000, version / 100 % 100, version % 100);
}

/// Opens cuBLASLt once. Throws with exit code 69.
const Library &blasLibrary() {
  static const Library opened = [] {
    DynamicLibrary library("libcublasLt.so.13", "this program needs cuBLASLt of CUDA 13");
    Library functions;
    SHALE_BLAS_FUNCTIONS(SHALE_FIND_FUNCTION)
    if (size_t version = functions.cublasLtGetVersion(); version < kLeastVersion)
      fail(
          SHALE_EXIT_UNAVAILABLE,
          "cuBLASLt has version %s; this program needs %s or later: name the folder of a newer one "
          "with --cuda-libraries",
          versionText(version).c_str(), versionText(kLeastVersion).c_str());
    return functions;
  }();
  return opened;
}

cudaDataType_t typeOf(Dtype type) {
  switch (type) {
  case Dtype::BF16:
    return CUDA_R_16BF;
  case Dtype::F16:
    return CUDA_R_16F;
  case Dtype::F8E4M3:
    return CUDA_R_8F_E4M3;
  case Dtype::F8E5M2:
    return CUDA_R_8F_E5M2;
  default:
    return CUDA_R_32F;
  }
}

/// Returns the largest power of two, up to 64, of which an address is a multiple. Buffers of a
/// program are aligned to 64 bytes, some by chance to more: these must not be matmuls of their
/// own, which are timed one by one.
uint32_t alignmentOf(const void *address) {
  auto bits = reinterpret_cast<uintptr_t>(address) | 64;
  return static_cast<uint32_t>(bits & -bits);
}

// The heuristic returned at most 8 when it was asked for 16 (docs/measurements/h200.md, D).
constexpr int kCandidates = 8;

/// Key of a prepared matmul, with the same parts as Blas::keyOf.
using Key =
    std::tuple<bool, bool, bool, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t,
               Dtype, Dtype, Dtype, bool, uint32_t, uint32_t, uint32_t, int, uint32_t, uint32_t>;

Key partsOf(const Matmul &p) {
  return {p.transposeA,
          p.transposeB,
          p.beta != 0,
          p.batch,
          p.m,
          p.n,
          p.k,
          p.lda,
          p.ldb,
          p.ldc,
          p.type,
          p.typeOfB(),
          p.resultType,
          p.tf32,
          alignmentOf(p.a),
          alignmentOf(p.b),
          alignmentOf(p.c),
          p.epilogue ? p.epilogue.kind : -1,
          p.epilogue ? alignmentOf(p.epilogue.with) : 0,
          p.epilogue.before ? alignmentOf(p.epilogue.before) : 0};
}

/// cuBLASLt's rows are columns of c: it adds a bias to each of them.
cublasLtEpilogue_t epilogueOf(const Epilogue &epilogue) {
  return epilogue.kind == SHALE_EPILOGUE_GELU_GRAD ? CUBLASLT_EPILOGUE_DGELU
         : epilogue.kind == SHALE_EPILOGUE_BIAS    ? CUBLASLT_EPILOGUE_BIAS
         : epilogue.before                         ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                                                   : CUBLASLT_EPILOGUE_GELU_BIAS;
}

/// A matmul that is ready to be enqueued. Descriptors live as long as the process.
struct Prepared {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  bool chosen = false; // whether there is an algorithm
  cublasLtMatmulAlgo_t algorithm = {};
};

} // namespace

struct Blas::State {
  const Library &library = blasLibrary();
  cublasLtHandle_t handle = nullptr;
  CUdeviceptr workspace = 0;
  size_t workspaceBytes = 0;
  std::map<Key, Prepared> prepared;

  void must(cublasStatus_t status, const char *what, const Matmul &p) const {
    if (status != CUBLAS_STATUS_SUCCESS)
      die(SHALE_EXIT_INTERNAL,
          format("cuBLASLt cannot %s %lld x a matmul of %lld x %lld x %lld, %s: %s", what,
                 (long long)p.batch, (long long)p.m, (long long)p.n, (long long)p.k, nameOf(p.type),
                 library.cublasLtGetStatusString(status)));
  }

  /// Makes the layout of `batch` column-major matrices that follow one another.
  cublasLtMatrixLayout_t layout(const Matmul &p, Dtype type, int64_t rows, int64_t columns,
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

  template <typename T>
  void set(const Matmul &p, const Prepared &made, cublasLtMatmulDescAttributes_t what,
           const T &value) const {
    must(library.cublasLtMatmulDescSetAttribute(made.operation, what, &value, sizeof(value)),
         "describe", p);
  }

  /// Sets the operands of the epilogue. Their alignment matters to the heuristic, too.
  void describeEpilogue(const Matmul &p, const Prepared &made) const {
    bool isGradient = p.epilogue.kind == SHALE_EPILOGUE_GELU_GRAD;
    const void *aux = isGradient ? p.epilogue.with : p.epilogue.before;
    set(p, made, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogueOf(p.epilogue));
    if (!isGradient)
      set(p, made, CUBLASLT_MATMUL_DESC_BIAS_POINTER, p.epilogue.with);
    if (!aux)
      return;
    set(p, made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
    set(p, made, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, p.n);
  }

  /// Sets the factors on the operands. cuBLASLt's first matrix is the matmul's second one.
  void describeScaling(const Matmul &p, const Prepared &made) const {
    set(p, made, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, p.scaling.b);
    set(p, made, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, p.scaling.a);
  }

  /// Returns the matmul with its descriptors.
  Prepared &describe(const Matmul &p) {
    auto [place, isNew] = prepared.try_emplace(partsOf(p));
    Prepared &made = place->second;
    if (isNew)
      describeMatrices(p, made);
    if (p.epilogue)
      describeEpilogue(p, made);
    if (p.scaling)
      describeScaling(p, made);
    return made;
  }

  void describeMatrices(const Matmul &p, Prepared &made) const {
    must(library.cublasLtMatmulDescCreate(
             &made.operation, p.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
             CUDA_R_32F),
         "describe", p);
    cublasOperation_t ofFirst = p.transposeB ? CUBLAS_OP_T : CUBLAS_OP_N,
                      ofSecond = p.transposeA ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(p, made, CUBLASLT_MATMUL_DESC_TRANSA, ofFirst);
    set(p, made, CUBLASLT_MATMUL_DESC_TRANSB, ofSecond);
    // Sums of the forward pass may drop bits, as PyTorch's do; those of gradients, of e5m2, may
    // not.
    if (p.scaling && p.type == Dtype::F8E4M3 && p.scaling.typeB == Dtype::F8E4M3)
      set(p, made, CUBLASLT_MATMUL_DESC_FAST_ACCUM, int8_t(1));
    made.a = layout(p, p.typeOfB(), p.transposeB ? p.k : p.n, p.transposeB ? p.n : p.k, p.ldb);
    made.b = layout(p, p.type, p.transposeA ? p.m : p.k, p.transposeA ? p.k : p.m, p.lda);
    made.c = layout(p, p.resultType, p.n, p.m, p.ldc);
  }

  /// Returns the matmul with an algorithm.
  const Prepared &prepare(const Matmul &p) {
    Prepared &made = describe(p);
    if (!made.chosen)
      made.algorithm = propose(p, 1).front();
    made.chosen = true;
    return made;
  }

  /// Returns up to `most` algorithms of the heuristic: at least one, unless there is an epilogue.
  std::vector<cublasLtMatmulAlgo_t> propose(const Matmul &p, int most) {
    const Prepared &made = describe(p);
    cublasLtMatmulPreference_t preference = nullptr;
    must(library.cublasLtMatmulPreferenceCreate(&preference), "describe", p);
    auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, const auto &value) {
      must(library.cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof(value)),
           "describe", p);
    };
    prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspaceBytes);
    // A sum over k that is split keeps its parts in f32. By default cuBLASLt may store them in
    // the type of the result, where they round, and overflow in f16.
    if (p.resultType != Dtype::F32)
      prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
             static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    // cuBLASLt's first matrix is the matmul's second one.
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignmentOf(p.b));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignmentOf(p.a));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignmentOf(p.c));
    prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignmentOf(p.c));
    std::vector<cublasLtMatmulHeuristicResult_t> found(most);
    int count = 0;
    cublasStatus_t status =
        library.cublasLtMatmulAlgoGetHeuristic(handle, made.operation, made.a, made.b, made.c,
                                               made.c, preference, most, found.data(), &count);
    must(library.cublasLtMatmulPreferenceDestroy(preference), "describe", p);
    if (p.epilogue && status != CUBLAS_STATUS_SUCCESS)
      return {};
    must(status, "find an algorithm for", p);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; i < count; ++i)
      if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= workspaceBytes)
        algorithms.push_back(found[i].algo);
    must(algorithms.empty() && !p.epilogue ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS,
         "find an algorithm for", p);
    return algorithms;
  }

  cublasStatus_t multiply(const Matmul &p, const Prepared &ready,
                          const cublasLtMatmulAlgo_t &algorithm, CUstream stream) const {
    return library.cublasLtMatmul(handle, ready.operation, &p.alpha, p.b, ready.a, p.a, ready.b,
                                  &p.beta, p.c, ready.c, p.c, ready.c, &algorithm,
                                  reinterpret_cast<void *>(workspace), workspaceBytes, stream);
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

void Blas::check() { blasLibrary(); }

void Blas::multiply(const Matmul &p, CUstream stream) {
  const Prepared &ready = state->prepare(p);
  state->must(state->multiply(p, ready, ready.algorithm, stream), "compute", p);
}

bool Blas::usesEpilogue(const Matmul &p) const {
  auto found = state->prepared.find(partsOf(p));
  return found != state->prepared.end() && found->second.chosen;
}

void Blas::dropEpilogue(const Matmul &p) {
  if (auto found = state->prepared.find(partsOf(p)); found != state->prepared.end())
    found->second.chosen = false;
}

std::string Blas::version() const { return versionText(state->library.cublasLtGetVersion()); }

std::string Blas::keyOf(const Matmul &p) {
  std::string key = format(
      "%s%s%s > %s %c%c %lld x %lld x %lld x %lld, ld %lld %lld %lld, aligned %u %u %u%s",
      p.tf32 ? "TF32" : nameOf(p.type), p.scaling ? " x " : "",
      p.scaling ? nameOf(p.scaling.typeB) : "", nameOf(p.resultType), p.transposeA ? 'T' : 'N',
      p.transposeB ? 'T' : 'N', (long long)p.batch, (long long)p.m, (long long)p.n, (long long)p.k,
      (long long)p.lda, (long long)p.ldb, (long long)p.ldc, alignmentOf(p.a), alignmentOf(p.b),
      alignmentOf(p.c), p.beta != 0 ? ", added to C" : "");
  if (p.epilogue)
    key += format(", %s %u", nameOf(p.epilogue.kind), alignmentOf(p.epilogue.with));
  if (p.epilogue.before)
    key += format(", before it %u", alignmentOf(p.epilogue.before));
  return key;
}

std::vector<cublasLtMatmulAlgo_t> Blas::candidates(const Matmul &p) {
  return state->propose(p, kCandidates);
}

bool Blas::tryMultiply(const Matmul &p, const cublasLtMatmulAlgo_t &algorithm, CUstream stream) {
  return state->multiply(p, state->describe(p), algorithm, stream) == CUBLAS_STATUS_SUCCESS;
}

bool Blas::use(const Matmul &p, const cublasLtMatmulAlgo_t &algorithm) {
  Prepared &made = state->describe(p);
  cublasLtMatmulHeuristicResult_t needs = {};
  if (state->library.cublasLtMatmulAlgoCheck(state->handle, made.operation, made.a, made.b, made.c,
                                             made.c, &algorithm, &needs) != CUBLAS_STATUS_SUCCESS ||
      needs.state != CUBLAS_STATUS_SUCCESS || needs.workspaceSize > state->workspaceBytes)
    return false;
  made.algorithm = algorithm;
  made.chosen = true;
  return true;
}

} // namespace shale::rt::cuda
