//===- Machines.cpp - Compute and bandwidth rates of machines -------------===//
#include "lib/Target/Machines.h"

using namespace shale;
using llvm::ArrayRef;
using llvm::StringRef;

// cpu: measured on two cores with AVX-512 (oneDNN 2.6 sgemm 300-410 GFLOP/s; bf16 is only a
// storage type; memory bandwidth 12 GB/s; ranks communicate over loopback).
// GPUs: dense rates of vendor data sheets, at 60 % of peak for products, 40 % for attention (cuDNN
// on an H200: 25 to 60 %, docs/benchmarks.md, section E) and 80 % for memory and link.
// Host memory is an eighth of the bandwidth of two sockets with eight channels each (DDR4-3200,
// DDR5-4800), as in DGX machines.
static const Rates kRates[] = {
    {"cpu", 330e9, 330e9, 330e9, 165e9, 12e9, 1.5e9, 6e9, 12e9, 3e-6, 60e-6, true,
     "measured on two cores of an AVX-512 server"},
    {"a100", 0.6 * 19.5e12, 0.6 * 156e12, 0.6 * 312e12, 0.4 * 312e12, 0.8 * 2.039e12, 0.8 * 300e9,
     25e9, 0.8 * 409.6e9 / 8, 4e-6, 20e-6, false,
     "NVIDIA A100 80GB SXM data sheet (FP32, TF32, BF16)", "sm_80"},
    {"h100", 0.6 * 67e12, 0.6 * 494.5e12, 0.6 * 989e12, 0.4 * 989e12, 0.8 * 3.35e12, 0.8 * 450e9,
     50e9, 0.8 * 614.4e9 / 8, 3e-6, 20e-6, false, "NVIDIA H100 SXM data sheet (FP32, TF32, BF16)",
     "sm_90a"},
    {"h200", 0.6 * 67e12, 0.6 * 494.5e12, 0.6 * 989e12, 0.4 * 989e12, 0.8 * 4.8e12, 0.8 * 450e9,
     50e9, 0.8 * 614.4e9 / 8, 3e-6, 20e-6, false, "NVIDIA H200 SXM data sheet (FP32, TF32, BF16)"},
    {"b200", 0.6 * 75e12, 0.6 * 1125e12, 0.6 * 2250e12, 0.4 * 2250e12, 0.8 * 7.7e12, 0.8 * 900e9,
     50e9, 0.8 * 614.4e9 / 8, 3e-6, 20e-6, false,
     "NVIDIA HGX B200 data sheet, an eighth (FP32, TF32, BF16)", "sm_100a"},
};

ArrayRef<Rates> shale::knownRates() { return kRates; }

const Rates *shale::ratesNamed(StringRef name) {
  for (const Rates &rates : kRates)
    if (name == rates.name)
      return &rates;
  return nullptr;
}

const Rates &shale::ratesOfArchitecture(StringRef architecture) {
  StringRef first = architecture.split(',').first;
  for (const Rates &rates : kRates)
    if (rates.architecture && first == rates.architecture)
      return rates;
  return kRates[0];
}
