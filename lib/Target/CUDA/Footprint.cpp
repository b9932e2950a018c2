//===- Footprint.cpp - Memory of libraries on the device ------------------===//
#include "lib/Target/CUDA/CUDA.h"
#include "shale/Runtime.h"

using namespace mlir;
using namespace shale;

std::vector<FixedCost> CudaTarget::getFixedCosts(ModuleOp module, int64_t, int64_t) const {
  bool products = false;
  for (auto function : module.getOps<rt::FuncOp>())
    function.walk([&](rt::GemmOp) { products = true; });
  return {{rt::Category::Workspace, "workspace of cuBLASLt",
           products ? int64_t(SHALE_BLAS_WORKSPACE) : 0}};
}
