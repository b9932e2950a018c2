//===- Machines.cpp - Rates of NVIDIA GPUs --------------------------------===//
#include "lib/Target/CUDA/CUDA.h"

using namespace shale;

// Dense rates of vendor data sheets, at 60 % of peak for products, 40 % for attention (cuDNN on an
// H200: 25 to 60 %, docs/benchmarks.md, section E) and 80 % for memory and link. Host memory is an
// eighth of the bandwidth of two sockets with eight channels each (DDR4-3200, DDR5-4800), as in DGX
// machines.
static const Rates kMachines[] = {
    {"a100", 0.6 * 19.5e12, 0.6 * 156e12, 0.6 * 312e12, 0.4 * 312e12, 0.8 * 2.039e12, 0.8 * 300e9,
     25e9, 0.8 * 409.6e9 / 8, 4e-6, 20e-6, false,
     "NVIDIA A100 80GB SXM data sheet (FP32, TF32, BF16)"},
    {"h100", 0.6 * 67e12, 0.6 * 494.5e12, 0.6 * 989e12, 0.4 * 989e12, 0.8 * 3.35e12, 0.8 * 450e9,
     50e9, 0.8 * 614.4e9 / 8, 3e-6, 20e-6, false, "NVIDIA H100 SXM data sheet (FP32, TF32, BF16)"},
    {"h200", 0.6 * 67e12, 0.6 * 494.5e12, 0.6 * 989e12, 0.4 * 989e12, 0.8 * 4.8e12, 0.8 * 450e9,
     50e9, 0.8 * 614.4e9 / 8, 3e-6, 20e-6, false, "NVIDIA H200 SXM data sheet (FP32, TF32, BF16)"},
    {"b200", 0.6 * 75e12, 0.6 * 1125e12, 0.6 * 2250e12, 0.4 * 2250e12, 0.8 * 7.7e12, 0.8 * 900e9,
     50e9, 0.8 * 614.4e9 / 8, 3e-6, 20e-6, false,
     "NVIDIA HGX B200 data sheet, an eighth (FP32, TF32, BF16)"},
};

llvm::ArrayRef<Rates> cuda::getMachines() { return kMachines; }

const Rates &CudaTarget::getRates() const {
  const auto *machine = llvm::find_if(kMachines, [&](const Rates &candidate) {
    return candidate.name == architectures.front().machine;
  });
  return machine == std::end(kMachines) ? host.getRates() : *machine;
}
