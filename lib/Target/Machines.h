//===- Machines.h - Compute and bandwidth rates of machines ---------------===//
#ifndef SHALE_TARGET_MACHINES_H
#define SHALE_TARGET_MACHINES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace shale {

/// Rates per second and latencies of one rank's machine, for ranking plans
/// (lib/Analysis/TimeModel.h).
struct Rates {
  const char *name;
  double flops;       ///< f32 operations of matrix products
  double flopsTf32;   ///< the same with operands rounded to TF32 (--allow-tf32)
  double flops16;     ///< bf16 and f16 operations of matrix products
  double attention;   ///< bf16 and f16 operations of a library's attention
  double memory;      ///< bytes read or written by kernels
  double link;        ///< bytes that a rank sends to others
  double host;        ///< bytes copied between device and host
  double hostMemory;  ///< bytes of host memory read or written by code on the host, per rank
  double launch;      ///< latency in seconds of a kernel or product
  double collective;  ///< latency in seconds before a collective's first byte
  bool oneMemory;     ///< whether host and device share one RAM
  const char *source; ///< source of the figures
  /// The target architecture, as in Target::getArchitecture(), that stands for this machine unless
  /// --machine names one; null: none.
  const char *architecture = nullptr;
};

/// Returns all machines that plans can be made for, the default first.
llvm::ArrayRef<Rates> knownRates();
/// Returns the rates of a machine by name, or null.
const Rates *ratesNamed(llvm::StringRef name);
/// Returns the rates of the machine that an architecture stands for: of the first one if it is a
/// list, of the default machine if it stands for none.
const Rates &ratesOfArchitecture(llvm::StringRef architecture);

} // namespace shale

#endif // SHALE_TARGET_MACHINES_H
