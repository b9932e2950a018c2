//===- Footprint.cpp - Memory of libraries on the device ------------------===//
#include "lib/Target/CUDA/CUDA.h"
#include "shale/Runtime.h"

using namespace mlir;
using namespace shale;

std::vector<FixedCost> CudaTarget::getFixedCosts(ModuleOp, int64_t, int64_t) const {
  return {{rt::Category::Workspace, "workspace of cuBLASLt", int64_t(SHALE_BLAS_WORKSPACE)}};
}
