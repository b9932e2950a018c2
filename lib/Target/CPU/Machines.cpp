//===- Machines.cpp - Rates of CPUs ---------------------------------------===//
#include "lib/Target/CPU/CPU.h"
#include <limits>

using namespace shale;

// Measured on two cores with AVX-512 (oneDNN 2.6 sgemm 300-410 GFLOP/s; memory bandwidth 12 GB/s;
// ranks communicate over loopback). 16-bit floats are only a storage type: the runtime widens the
// operands of products piece by piece (runtime/device/host/Gemm.cpp), which takes 0.07 of their
// time, and kernels convert each element (docs/benchmarks.md, "16-bit floats, one rank").
static constexpr double kNoLibrary = std::numeric_limits<double>::infinity();

static const Rates kMachines[] = {
    {"cpu", 330e9, 330e9, 330e9 / 1.07, 165e9, kNoLibrary, 12e9, 1.5e9, 6e9, 12e9, 3e-6, 60e-6,
     true, 0, 0, "measured on two cores of an AVX-512 server", 2},
};

llvm::ArrayRef<Rates> cpu::getMachines() { return kMachines; }

const Rates &CpuTarget::getRates() const { return kMachines[0]; }
