// Epilogues of the emulated cuBLASLt, in f64 from the formulas of GELU's approximation.
#include "BlasEpilogue.h"
#include "Floats.h"

#include <cmath>

namespace shale::stub {

namespace {

constexpr double kAlpha = 0.79788456080286535588; // sqrt(2 / pi)
constexpr double kBeta = 0.044715;

double gelu(double x) { return x / 2 * (1 + std::tanh(kAlpha * (x + kBeta * std::pow(x, 3)))); }

// d/dx x sigmoid(2 u) with u = alpha (x + beta x^3), as 1 + tanh(u) = 2 sigmoid(2 u).
double geluSlope(double x) {
  double u = kAlpha * (x + kBeta * std::pow(x, 3));
  double s = 1 / (1 + std::exp(-2 * u));
  return s + x * s * (1 - s) * 2 * kAlpha * (1 + 3 * kBeta * x * x);
}

float load(cudaDataType type, const char *data, int64_t index) {
  return type == CUDA_R_16BF ? float(reinterpret_cast<const BFloat *>(data)[index])
                             : float(reinterpret_cast<const Half *>(data)[index]);
}

void store(cudaDataType type, char *data, int64_t index, float value) {
  if (type == CUDA_R_16BF)
    reinterpret_cast<BFloat *>(data)[index] = narrow<BFloat>(value);
  else
    reinterpret_cast<Half *>(data)[index] = narrow<Half>(value);
}

} // namespace

bool Epilogue::hasBias() const {
  return kind == CUBLASLT_EPILOGUE_BIAS || kind == CUBLASLT_EPILOGUE_GELU_BIAS ||
         kind == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
}

bool Epilogue::writesAux() const { return kind == CUBLASLT_EPILOGUE_GELU_AUX_BIAS; }

bool Epilogue::readsAux() const { return kind == CUBLASLT_EPILOGUE_DGELU; }

uint64_t Epilogue::alignment() const {
  uint64_t bits = 256;
  if (hasBias())
    bits |= reinterpret_cast<uint64_t>(bias);
  if (writesAux() || readsAux())
    bits |= reinterpret_cast<uint64_t>(aux);
  return bits & -bits;
}

cublasStatus_t Epilogue::check(int64_t rows, int batch, cudaDataType type, bool rowMajor) const {
  if (kind == CUBLASLT_EPILOGUE_DEFAULT)
    return CUBLAS_STATUS_SUCCESS;
  bool known = hasBias() || readsAux();
  if (!known || batch != 1 || rowMajor || (type != CUDA_R_16BF && type != CUDA_R_16F))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  if (hasBias() && (!bias || alignment() < 2 || (biasType != -1 && biasType != type)))
    return CUBLAS_STATUS_INVALID_VALUE;
  if ((writesAux() || readsAux()) &&
      (!aux || reinterpret_cast<uint64_t>(aux) % 16 || auxLd < rows || auxLd % 8 ||
       (auxType != -1 && auxType != type)))
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}

float Epilogue::apply(cudaDataType type, int64_t i, int64_t j, float value, const char *biasData,
                      char *auxData) const {
  if (readsAux())
    return float(value * geluSlope(load(type, auxData, j * auxLd + i)));
  if (hasBias())
    value += load(type, biasData, i);
  if (writesAux())
    store(type, auxData, j * auxLd + i, value);
  bool activates = kind == CUBLASLT_EPILOGUE_GELU_BIAS || kind == CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
  return activates ? float(gelu(value)) : value;
}

} // namespace shale::stub
