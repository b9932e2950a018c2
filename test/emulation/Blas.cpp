// The emulated cuBLASLt: matmuls of f32, bf16, f16 and 8-bit float matrices with f32 sums.
#include "BlasEpilogue.h"
#include "BlasMatmul.h"
#include "BlasStatus.h"
#include "Faults.h"
#include "Floats.h"
#include "Stub.h"

#pragma GCC visibility push(default)
#include <cublasLt.h>
#pragma GCC visibility pop
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

using namespace shale::stub;

struct cublasLtContext {};

namespace {

struct Description {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  int32_t transA, transB, transC, pointerMode;
  Epilogue epilogue;
  const void *scales[2]; // of A and B, in device memory
  int8_t fastAccumulation;
};
struct Layout {
  cudaDataType type;
  int32_t order;
  uint64_t rows, cols;
  int64_t ld, stride;
  int32_t batch;
};
struct Preference {
  uint64_t workspace;
  uint32_t alignment[4]; // of A, B, C, D in bytes
  uint32_t reductions;   // mask of cublasLtReductionScheme_t
};
static_assert(sizeof(Description) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));

Description &of(cublasLtMatmulDesc_t opaque) { return *reinterpret_cast<Description *>(opaque); }
Layout &of(cublasLtMatrixLayout_t opaque) { return *reinterpret_cast<Layout *>(opaque); }
Preference &of(cublasLtMatmulPreference_t opaque) {
  return *reinterpret_cast<Preference *>(opaque);
}

/// An algorithm: how a sum is split, and what it needs.
struct Algorithm {
  int parts;
  uint64_t workspace;
  uint64_t alignment;  ///< of addresses and leading dimensions, in bytes
  bool rounds = false; ///< the sum of each part to the type of the result
};
const Algorithm algorithms[] = {{1, 256 << 10, 16}, {2, 32 << 10, 16}, {4, 0, 1}};

/// The seconds that events say a matmul takes.
double secondsOf(uint64_t algorithm) {
  static const std::vector<double> costs = [] {
    std::string text = setting("SHALE_STUB_COSTS", "200,200,200");
    std::vector<double> read(std::size(algorithms));
    char end;
    if (std::sscanf(text.c_str(), "%lf,%lf,%lf%c", &read[0], &read[1], &read[2], &end) != 3 ||
        *std::min_element(read.begin(), read.end()) < 0)
      stop("SHALE_STUB_COSTS: '" + text + "' is not three numbers of microseconds");
    return read;
  }();
  return costs[algorithm] * 1e-6;
}

template <typename Field> cublasStatus_t set(Field &field, const void *value, size_t bytes) {
  REQUIRE(value && bytes == sizeof(field), INVALID_VALUE);
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

bool is8Bit(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

size_t sizeOf(cudaDataType type) { return type == CUDA_R_32F ? 4 : is8Bit(type) ? 1 : 2; }

/// op(matrix): its shape and the distances of its elements.
struct View {
  cudaDataType type;
  int64_t rows, cols, rowStep, colStep, batchStep;
  int64_t extent; // elements from the first to behind the last, over all batches

  int64_t at(int64_t row, int64_t col) const { return row * rowStep + col * colStep; }
};

View view(const Layout &layout, bool transpose) {
  int64_t rows = layout.rows, cols = layout.cols;
  int64_t rowStep = layout.order == CUBLASLT_ORDER_ROW ? layout.ld : 1;
  int64_t colStep = layout.order == CUBLASLT_ORDER_ROW ? 1 : layout.ld;
  int64_t extent =
      (rows - 1) * rowStep + (cols - 1) * colStep + (layout.batch - 1) * layout.stride + 1;
  if (transpose)
    return {layout.type, cols, rows, colStep, rowStep, layout.stride, extent};
  return {layout.type, rows, cols, rowStep, colStep, layout.stride, extent};
}

/// A matmul with all of its matrices.
struct Problem {
  Description description;
  Layout a, b, c, d;
};

bool isTranspose(int32_t operation) { return operation != CUBLAS_OP_N; }

/// Checks a matmul of 8-bit floats. On GPUs of capability 9.0 the first matrix must be transposed
/// and the second not, and all sizes of lines are multiples of 16 bytes.
cublasStatus_t check8Bit(const Problem &p) {
  const Description &what = p.description;
  REQUIRE(is8Bit(p.b.type) && !(p.a.type == CUDA_R_8F_E5M2 && p.b.type == CUDA_R_8F_E5M2),
          NOT_SUPPORTED);
  REQUIRE(what.transA == CUBLAS_OP_T && what.transB == CUBLAS_OP_N, NOT_SUPPORTED);
  for (const Layout *layout : {&p.a, &p.b, &p.c, &p.d})
    REQUIRE(layout->order == CUBLASLT_ORDER_COL && layout->batch == 1 && layout->rows % 16 == 0 &&
                layout->cols % 16 == 0 && layout->ld * sizeOf(layout->type) % 16 == 0,
            NOT_SUPPORTED);
  REQUIRE(what.compute == CUBLAS_COMPUTE_32F && what.epilogue.kind == CUBLASLT_EPILOGUE_DEFAULT,
          NOT_SUPPORTED);
  return CUBLAS_STATUS_SUCCESS;
}

/// Checks what a program got wrong (INVALID_VALUE) and what no algorithm can do (NOT_SUPPORTED).
cublasStatus_t check(const Problem &p) {
  const Description &what = p.description;
  for (const Layout *layout : {&p.a, &p.b, &p.c, &p.d}) {
    REQUIRE(layout->rows > 0 && layout->cols > 0 && layout->batch > 0, INVALID_VALUE);
    int64_t line = layout->order == CUBLASLT_ORDER_ROW ? layout->cols : layout->rows;
    REQUIRE(layout->ld >= line, INVALID_VALUE);
    REQUIRE(layout->order == CUBLASLT_ORDER_ROW || layout->order == CUBLASLT_ORDER_COL,
            NOT_SUPPORTED);
    REQUIRE(layout->batch == p.d.batch, INVALID_VALUE);
  }
  View a = view(p.a, isTranspose(what.transA)), b = view(p.b, isTranspose(what.transB));
  View c = view(p.c, false), d = view(p.d, false);
  REQUIRE(a.cols == b.rows && d.rows == a.rows && d.cols == b.cols, INVALID_VALUE);
  REQUIRE(c.rows == d.rows && c.cols == d.cols, INVALID_VALUE);
  auto isKnown = [](cudaDataType type) {
    return type == CUDA_R_32F || type == CUDA_R_16BF || type == CUDA_R_16F;
  };
  REQUIRE(c.type == d.type && isKnown(d.type), NOT_SUPPORTED);
  if (is8Bit(a.type)) {
    if (cublasStatus_t failed = check8Bit(p))
      return failed;
  } else {
    REQUIRE(isKnown(a.type) && b.type == a.type, NOT_SUPPORTED);
    REQUIRE(d.type == a.type || d.type == CUDA_R_32F, NOT_SUPPORTED);
    REQUIRE(!what.scales[0] && !what.scales[1], NOT_SUPPORTED);
  }
  REQUIRE(what.compute == CUBLAS_COMPUTE_32F || what.compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
              (what.compute == CUBLAS_COMPUTE_32F_FAST_TF32 && a.type == CUDA_R_32F),
          NOT_SUPPORTED);
  REQUIRE(what.scale == CUDA_R_32F && what.transC == CUBLAS_OP_N &&
              what.pointerMode == CUBLASLT_POINTER_MODE_HOST,
          NOT_SUPPORTED);
  return what.epilogue.check(d.rows, p.d.batch, d.type, p.d.order == CUBLASLT_ORDER_ROW);
}

uint64_t hash(const void *data, size_t bytes, uint64_t seed) {
  for (size_t i = 0; i < bytes; ++i)
    seed = (seed ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3;
  return seed;
}

/// Identifies a matmul. An algorithm runs only the matmul that it was chosen for.
uint64_t hash(const Problem &p) {
  uint64_t value = 0xcbf29ce484222325;
  for (const Layout *layout : {&p.a, &p.b, &p.c, &p.d}) {
    uint64_t fields[] = {uint64_t(layout->type),
                         uint64_t(layout->order),
                         layout->rows,
                         layout->cols,
                         uint64_t(layout->ld),
                         uint64_t(layout->batch),
                         uint64_t(layout->stride)};
    value = hash(fields, sizeof(fields), value);
  }
  int32_t fields[] = {p.description.compute, p.description.transA, p.description.transB,
                      int32_t(p.description.epilogue.kind), p.description.fastAccumulation};
  return hash(fields, sizeof(fields), value);
}

bool linesAligned(const Problem &p, uint64_t alignment) {
  for (const Layout *layout : {&p.a, &p.b, &p.c, &p.d})
    if (layout->ld * sizeOf(layout->type) % alignment ||
        (layout->batch > 1 && layout->stride * sizeOf(layout->type) % alignment))
      return false;
  return true;
}

constexpr uint64_t kMagic = 0x5368616c65426c61;

cublasLtMatmulAlgo_t encode(const Problem &p, uint64_t index, bool rounds) {
  cublasLtMatmulAlgo_t algo = {{kMagic, index, hash(p), rounds, 0, 0, 0, 0}};
  algo.data[7] = hash(algo.data, 7 * sizeof(uint64_t), kMagic);
  return algo;
}

/// Sets `index` to the algorithm of encode(); false if it is none, or one of another matmul.
bool decode(const Problem &p, const cublasLtMatmulAlgo_t &algo, uint64_t &index) {
  index = algo.data[1];
  if (index >= std::size(algorithms))
    return false;
  cublasLtMatmulAlgo_t own = encode(p, index, algo.data[3]);
  return std::memcmp(own.data, algo.data, sizeof(own.data)) == 0;
}

/// A matmul on a stream.
struct Matmul {
  Problem problem;
  Algorithm algorithm;
  float alpha, beta;
  CUdeviceptr a, b, c, d, workspace;
};

template <typename Type>
void gather(const View &view, const char *from, int64_t batch, std::vector<float> &to) {
  to.resize(view.rows * view.cols);
  const Type *values = reinterpret_cast<const Type *>(from) + batch * view.batchStep;
  for (int64_t i = 0; i < view.rows; ++i)
    for (int64_t j = 0; j < view.cols; ++j)
      to[i * view.cols + j] = values[view.at(i, j)];
}

void gather(const View &view, const char *from, int64_t batch, std::vector<float> &to) {
  if (view.type == CUDA_R_32F)
    gather<float>(view, from, batch, to);
  else if (view.type == CUDA_R_16BF)
    gather<BFloat>(view, from, batch, to);
  else if (view.type == CUDA_R_8F_E4M3)
    gather<E4M3>(view, from, batch, to);
  else if (view.type == CUDA_R_8F_E5M2)
    gather<E5M2>(view, from, batch, to);
  else
    gather<Half>(view, from, batch, to);
}

template <typename Type>
void finish(const Matmul &p, const View &d, const View &c, const std::vector<float> &sums,
            const char *from, char *to, int64_t batch, float scale, const char *bias, char *aux) {
  const Type *old = reinterpret_cast<const Type *>(from) + batch * c.batchStep;
  Type *values = reinterpret_cast<Type *>(to) + batch * d.batchStep;
  const Epilogue &epilogue = p.problem.description.epilogue;
  bool plain = epilogue.kind == CUBLASLT_EPILOGUE_DEFAULT;
  for (int64_t i = 0; i < d.rows; ++i)
    for (int64_t j = 0; j < d.cols; ++j) {
      float value = p.alpha * scale * sums[i * d.cols + j];
      if (p.beta != 0) // otherwise C is not read
        value += p.beta * old[c.at(i, j)];
      if (!plain)
        value = epilogue.apply(d.type, i, j, value, bias, aux);
      values[d.at(i, j)] = narrow<Type>(value);
    }
}

CUresult runMatmul(void *data) {
  const Matmul &p = *static_cast<Matmul *>(data);
  View a = view(p.problem.a, isTranspose(p.problem.description.transA));
  View b = view(p.problem.b, isTranspose(p.problem.description.transB));
  View c = view(p.problem.c, false), d = view(p.problem.d, false);
  auto find = [](const char *name, CUdeviceptr address, size_t bytes) {
    auto *found = static_cast<char *>(shale_stub_address(address, bytes));
    if (!found)
      std::fprintf(stderr, "shale stub: cublasLtMatmul: %s, %zu bytes, is not in one allocation\n",
                   name, bytes);
    return found;
  };
  char *workspace = nullptr;
  if (p.algorithm.workspace &&
      !(workspace = find("the workspace", p.workspace, p.algorithm.workspace)))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  char *left = find("A", p.a, a.extent * sizeOf(a.type));
  char *right = find("B", p.b, b.extent * sizeOf(b.type));
  char *old = p.beta == 0 ? nullptr : find("C", p.c, c.extent * sizeOf(c.type));
  char *to = find("D", p.d, d.extent * sizeOf(d.type));
  const Epilogue &epilogue = p.problem.description.epilogue;
  bool hasAux = epilogue.writesAux() || epilogue.readsAux();
  char *bias = epilogue.hasBias()
                   ? find("the bias", reinterpret_cast<CUdeviceptr>(epilogue.bias), d.rows * 2)
                   : nullptr;
  char *aux = hasAux ? find("the auxiliary matrix", reinterpret_cast<CUdeviceptr>(epilogue.aux),
                            ((d.cols - 1) * epilogue.auxLd + d.rows) * 2)
                     : nullptr;
  if (!left || !right || (p.beta != 0 && !old) || !to || (epilogue.hasBias() && !bias) ||
      (hasAux && !aux))
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  float scale = 1;
  for (const void *pointer : p.problem.description.scales)
    if (pointer) {
      char *factor = find("a scale", reinterpret_cast<CUdeviceptr>(pointer), sizeof(float));
      if (!factor)
        return CUDA_ERROR_ILLEGAL_ADDRESS;
      scale *= *reinterpret_cast<float *>(factor);
    }
  // Whatever else lies in the workspace is lost, before the matmul and after it.
  if (workspace)
    std::memset(workspace, 0xff, p.algorithm.workspace);
  thread_local std::vector<float> x, y, sums;
  for (int64_t batch = 0; batch < p.problem.d.batch; ++batch) {
    gather(a, left, batch, x);
    gather(b, right, batch, y);
    if (p.problem.description.compute == CUBLAS_COMPUTE_32F_FAST_TF32) {
      std::transform(x.begin(), x.end(), x.begin(), toTF32);
      std::transform(y.begin(), y.end(), y.begin(), toTF32);
    }
    sums.resize(d.rows * d.cols);
    if (p.algorithm.rounds)
      multiplyInParts(d.rows, d.cols, a.cols, p.algorithm.parts, x.data(), y.data(), sums.data(),
                      d.type == CUDA_R_16BF ? rounded<BFloat> : rounded<Half>);
    else
      multiply(d.rows, d.cols, a.cols, p.algorithm.parts, x.data(), y.data(), sums.data());
    if (d.type == CUDA_R_32F)
      finish<float>(p, d, c, sums, old, to, batch, scale, bias, aux);
    else if (d.type == CUDA_R_16BF)
      finish<BFloat>(p, d, c, sums, old, to, batch, scale, bias, aux);
    else
      finish<Half>(p, d, c, sums, old, to, batch, scale, bias, aux);
  }
  if (workspace)
    std::memset(workspace, 0xff, p.algorithm.workspace);
  return CUDA_SUCCESS;
}

} // namespace

// ---- the library

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) {
  ENTER("cublasLtCreate");
  REQUIRE(handle, INVALID_VALUE);
  CUcontext context = nullptr;
  REQUIRE(cuCtxGetCurrent(&context) == CUDA_SUCCESS && context, NOT_INITIALIZED);
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  ENTER("cublasLtDestroy");
  REQUIRE(handle, NOT_INITIALIZED);
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion() {
  return std::stoul(setting("SHALE_STUB_CUBLAS_VERSION", std::to_string(CUBLAS_VERSION).c_str()));
}

const char *cublasLtGetStatusName(cublasStatus_t status) { return found(status).name; }

const char *cublasLtGetStatusString(cublasStatus_t status) { return found(status).text; }

// ---- descriptions

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  ENTER("cublasLtMatmulDescCreate");
  REQUIRE(made, INVALID_VALUE);
  *made = new cublasLtMatmulDescOpaque_t();
  of(*made) = {
      compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_POINTER_MODE_HOST, {}, {}, 0};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
  ENTER("cublasLtMatmulDescDestroy");
  delete description;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t opaque,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t bytes) {
  ENTER("cublasLtMatmulDescSetAttribute");
  REQUIRE(opaque, INVALID_VALUE);
  Description &description = of(opaque);
  switch (attribute) {
  case CUBLASLT_MATMUL_DESC_TRANSA:
    return set(description.transA, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSB:
    return set(description.transB, value, bytes);
  case CUBLASLT_MATMUL_DESC_TRANSC:
    return set(description.transC, value, bytes);
  case CUBLASLT_MATMUL_DESC_POINTER_MODE:
    return set(description.pointerMode, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE:
    return set(description.epilogue.kind, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
    return set(description.epilogue.bias, value, bytes);
  case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
    return set(description.epilogue.biasType, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER:
    return set(description.epilogue.aux, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD:
    return set(description.epilogue.auxLd, value, bytes);
  case CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE:
    return set(description.epilogue.auxType, value, bytes);
  case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
    return set(description.scales[0], value, bytes);
  case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
    return set(description.scales[1], value, bytes);
  case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
    return set(description.fastAccumulation, value, bytes);
  case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
    return set(description.compute, value, bytes);
  case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
    return set(description.scale, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
  ENTER("cublasLtMatrixLayoutCreate");
  REQUIRE(made, INVALID_VALUE);
  *made = new cublasLtMatrixLayoutOpaque_t();
  of(*made) = {type, CUBLASLT_ORDER_COL, rows, cols, ld, 0, 1};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  ENTER("cublasLtMatrixLayoutDestroy");
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t opaque,
                                                cublasLtMatrixLayoutAttribute_t attribute,
                                                const void *value, size_t bytes) {
  ENTER("cublasLtMatrixLayoutSetAttribute");
  REQUIRE(opaque, INVALID_VALUE);
  Layout &layout = of(opaque);
  switch (attribute) {
  case CUBLASLT_MATRIX_LAYOUT_TYPE:
    return set(layout.type, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_ORDER:
    return set(layout.order, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_ROWS:
    return set(layout.rows, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_COLS:
    return set(layout.cols, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_LD:
    return set(layout.ld, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
    return set(layout.batch, value, bytes);
  case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
    return set(layout.stride, value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made) {
  ENTER("cublasLtMatmulPreferenceCreate");
  REQUIRE(made, INVALID_VALUE);
  *made = new cublasLtMatmulPreferenceOpaque_t();
  of(*made) = {0, {256, 256, 256, 256}, CUBLASLT_REDUCTION_SCHEME_MASK};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  ENTER("cublasLtMatmulPreferenceDestroy");
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t opaque,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t bytes) {
  ENTER("cublasLtMatmulPreferenceSetAttribute");
  REQUIRE(opaque, INVALID_VALUE);
  Preference &preference = of(opaque);
  switch (attribute) {
  case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
    return set(preference.workspace, value, bytes);
  case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
    return set(preference.reductions, value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    return set(preference.alignment[0], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    return set(preference.alignment[1], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    return set(preference.alignment[2], value, bytes);
  case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
    return set(preference.alignment[3], value, bytes);
  default:
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

// ---- matmuls

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *count) {
  ENTER("cublasLtMatmulAlgoGetHeuristic");
  REQUIRE(handle, NOT_INITIALIZED);
  REQUIRE(description && a && b && c && d && preference && requested > 0 && results && count,
          INVALID_VALUE);
  *count = 0;
  Problem problem{of(description), of(a), of(b), of(c), of(d)};
  if (cublasStatus_t failed = check(problem))
    return failed;
  uint64_t alignment = *std::min_element(of(preference).alignment, of(preference).alignment + 4);
  alignment = std::min(alignment, problem.description.epilogue.alignment());
  for (uint64_t i = 0; i < std::size(algorithms) && *count < requested; ++i) {
    const Algorithm &algorithm = algorithms[i];
    bool aligned = i + 1 == std::size(algorithms) ||
                   (alignment >= algorithm.alignment && linesAligned(problem, algorithm.alignment));
    if (!aligned || algorithm.workspace > of(preference).workspace)
      continue;
    bool rounds = algorithm.parts > 1 && problem.d.type != CUDA_R_32F &&
                  (of(preference).reductions & ~CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    results[*count] = {
        encode(problem, i, rounds), algorithm.workspace, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
    ++*count;
  }
  return *count ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result) {
  ENTER("cublasLtMatmulAlgoCheck");
  REQUIRE(handle, NOT_INITIALIZED);
  REQUIRE(description && a && b && c && d && algo && result, INVALID_VALUE);
  Problem problem{of(description), of(a), of(b), of(c), of(d)};
  if (cublasStatus_t failed = check(problem))
    return failed;
  uint64_t index = 0;
  REQUIRE(decode(problem, *algo, index), INVALID_VALUE);
  *result = {*algo, algorithms[index].workspace, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t aLayout,
                              const void *b, cublasLtMatrixLayout_t bLayout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t cLayout, void *d,
                              cublasLtMatrixLayout_t dLayout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspaceBytes, cudaStream_t stream) {
  ENTER("cublasLtMatmul");
  REQUIRE(handle, NOT_INITIALIZED);
  REQUIRE(description && alpha && beta && a && b && d && aLayout && bLayout && cLayout && dLayout,
          INVALID_VALUE);
  auto number = [](const void *address) { return reinterpret_cast<CUdeviceptr>(address); };
  auto matmul = std::make_unique<Matmul>();
  matmul->problem = {of(description), of(aLayout), of(bLayout), of(cLayout), of(dLayout)};
  if (cublasStatus_t failed = check(matmul->problem))
    return failed;
  std::memcpy(&matmul->alpha, alpha, sizeof(float));
  std::memcpy(&matmul->beta, beta, sizeof(float));
  REQUIRE(c || matmul->beta == 0, INVALID_VALUE);
  uint64_t index = std::size(algorithms) - 1;
  REQUIRE(!algo || decode(matmul->problem, *algo, index), INVALID_VALUE);
  matmul->algorithm = algorithms[index];
  matmul->algorithm.rounds = algo && algo->data[3];
  const Algorithm &algorithm = matmul->algorithm;
  REQUIRE(workspaceBytes >= algorithm.workspace && (workspace || !algorithm.workspace),
          INVALID_VALUE);
  REQUIRE(number(workspace) % 256 == 0, INVALID_VALUE);
  const std::pair<const void *, const Layout *> operands[] = {{a, &matmul->problem.a},
                                                              {b, &matmul->problem.b},
                                                              {c, &matmul->problem.c},
                                                              {d, &matmul->problem.d}};
  for (auto [address, layout] : operands)
    REQUIRE(number(address) % std::max<uint64_t>(algorithm.alignment, sizeOf(layout->type)) == 0,
            INVALID_VALUE);
  const Epilogue &epilogue = matmul->problem.description.epilogue;
  REQUIRE(epilogue.alignment() >= algorithm.alignment, INVALID_VALUE);
  matmul->a = number(a);
  matmul->b = number(b);
  matmul->c = number(c);
  matmul->d = number(d);
  matmul->workspace = number(workspace);
  ShaleStubWork work = {"cublasLtMatmul",
                        matmul.release(),
                        nullptr,
                        nullptr,
                        runMatmul,
                        nullptr,
                        [](void *data) { delete static_cast<Matmul *>(data); },
                        secondsOf(index)};
  return shale_stub_enqueue(reinterpret_cast<CUstream>(stream), &work) == CUDA_SUCCESS
             ? CUBLAS_STATUS_SUCCESS
             : CUBLAS_STATUS_EXECUTION_FAILED;
}
