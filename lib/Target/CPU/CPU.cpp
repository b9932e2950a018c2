//===- CPU.cpp - x86-64 CPUs ----------------------------------------------===//
#include "lib/Target/CPU/CPU.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/Quantize.h"
#include "lib/Target/CPU/Kernels/Kernels.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace shale;

#include "lib/Target/CPU/Kernels/OwnKernel.cpp.inc"

bool CpuTarget::isLibraryCall(Operation *op) const {
  return isa<nn::MatmulOp, nn::MatmulAddOp, nn::QuantizedMatmulOp, nn::GroupedMatmulOp,
             nn::GroupedMatmulGradOp>(op) &&
         !getElementTypeOrSelf(op->getResult(0)).isF64();
}

bool CpuTarget::hasOwnKernel(Operation *op) const { return isa<cpu::OwnKernelOpInterface>(op); }

bool CpuTarget::storesCasts(Operation *op) const {
  auto own = dyn_cast<cpu::OwnKernelOpInterface>(op);
  return own && own.storesCasts();
}

static std::unique_ptr<Target> makeTarget(StringRef level, std::string &error) {
  if (level == "native") {
    llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
    auto has = [&](std::initializer_list<const char *> names) {
      return llvm::all_of(names, [&](const char *feature) { return features.lookup(feature); });
    };
    if (has({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"})) {
      level = "x86-64-v4";
    } else if (has({"avx2", "fma", "bmi", "bmi2", "f16c", "lzcnt", "movbe"})) {
      level = "x86-64-v3";
    } else {
      error = "this CPU has no AVX2; cpu:x86-64-v3 and cpu:x86-64-v4 compile for another";
      return nullptr;
    }
  }
  if (level != "x86-64-v3" && level != "x86-64-v4") {
    error = "unknown CPU '" + level.str() + "'; expected native, x86-64-v3 or x86-64-v4";
    return nullptr;
  }
  return std::make_unique<CpuTarget>(level, level == "x86-64-v4" ? 16 : 8);
}

/// The CPUs among the choices of --machine.
static constexpr StringRef kMachines[] = {
#include "lib/Target/CPU/Machines.inc"
};

void shale::registerCpuTarget() {
  registerTargetKind("cpu", {"native", "x86-64-v3", "x86-64-v4"}, kMachines, makeTarget);
}

const Rates &CpuTarget::getRates() const { return *ratesNamed("cpu"); }

void shale::registerCpuKernels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, nn::NNDialect *) {
    cpu::attachAttentionKernels(*context);
    cpu::attachDataKernels(*context);
    cpu::attachEmbeddingKernels(*context);
    cpu::attachOptimizerKernels(*context);
    cpu::attachSortKernels(*context);
  });
}
