//===- Machines.cpp - Rates of NVIDIA GPUs --------------------------------===//
#include "lib/Target/CUDA/CUDA.h"

using namespace shale;

static constexpr int64_t kMiB = 1 << 20;

// H100 and H200: products and attention of 16-bit floats, memory and launches in a CUDA graph as
// measured over whole steps (docs/benchmarks.md, "GPU"), where the power limit bounds products. The
// others: the same share of the dense rates and bandwidths of vendor data sheets. Products of f32
// and TF32 at 60 % of these, links at 80 %. Host memory is an eighth of the bandwidth of two
// sockets with eight channels each (DDR4-3200, DDR5-4800), as in DGX machines. Capacities are those
// that nvidia-smi prints; on an H100 a program of 83.67 GB ran. Of an H200's 143,771 MiB the driver
// tells a process that there are 143,156 (section I); the others are taken to be alike.
static constexpr int64_t kReserved = 615 * kMiB;

static const Rates kMachines[] = {
    {"a100", 0.6 * 19.5e12, 0.6 * 156e12, 0.7 * 312e12, 0.8 * 312e12, 0.9e12, 0.87 * 2.039e12,
     0.8 * 300e9, 25e9, 0.8 * 409.6e9 / 8, 1e-6, 20e-6, false, 81920 * kMiB, kReserved,
     "NVIDIA A100 80GB SXM data sheet (FP32, TF32, BF16)"},
    {"h100", 0.6 * 67e12, 0.6 * 494.5e12, 692e12, 795e12, 1.35e12, 2.98e12, 0.8 * 450e9, 50e9,
     0.8 * 614.4e9 / 8, 1e-6, 20e-6, false, 81559 * kMiB, kReserved,
     "measured on an H100 SXM; FP32, TF32 and NVLink: NVIDIA H100 SXM data sheet"},
    {"h200", 0.6 * 67e12, 0.6 * 494.5e12, 692e12, 795e12, 1.35e12, 4.17e12, 0.8 * 450e9, 50e9,
     0.8 * 614.4e9 / 8, 1e-6, 20e-6, false, 143771 * kMiB, kReserved,
     "measured on an H200 SXM; FP32, TF32 and NVLink: NVIDIA H200 SXM data sheet"},
    {"b200", 0.6 * 75e12, 0.6 * 1125e12, 0.7 * 2250e12, 0.8 * 2250e12, 1.6e12, 0.87 * 7.7e12,
     0.8 * 900e9, 50e9, 0.8 * 614.4e9 / 8, 1e-6, 20e-6, false, 183359 * kMiB, kReserved,
     "NVIDIA HGX B200 data sheet, an eighth (FP32, TF32, BF16)"},
};

llvm::ArrayRef<Rates> cuda::getMachines() { return kMachines; }

const Rates &CudaTarget::getRates() const {
  const auto *machine = llvm::find_if(kMachines, [&](const Rates &candidate) {
    return candidate.name == architectures.front().machine;
  });
  return machine == std::end(kMachines) ? host->getRates() : *machine;
}
