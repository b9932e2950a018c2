//===- Machines.h - Compute and bandwidth rates of machines ---------------===//
#ifndef SHALE_TARGET_MACHINES_H
#define SHALE_TARGET_MACHINES_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <vector>

namespace shale {

/// Rates per second and latencies of one rank's machine, for ranking plans
/// (lib/Analysis/TimeModel.h).
struct Rates {
  const char *name;
  double flops;       ///< f32 operations of matrix products
  double flopsTf32;   ///< the same with operands rounded to TF32 (--allow-tf32)
  double flops16;     ///< bf16 and f16 operations of matrix products
  double attention;   ///< bf16 and f16 operations of the products in a library's attention
  double scores;      ///< exponentials of scores there, a query and key each; not beside products
  double memory;      ///< bytes read or written by kernels
  double link;        ///< bytes that a rank sends to others
  double host;        ///< bytes copied between device and host
  double hostMemory;  ///< bytes of host memory read or written by code on the host, per rank
  double launch;      ///< latency in seconds of a kernel or product
  double collective;  ///< latency in seconds before a collective's first byte
  bool oneMemory;     ///< whether host and device share one RAM
  int64_t capacity;   ///< bytes of device memory, as the vendor's tools print; 0 if that differs
  int64_t reserved;   ///< bytes of these that the driver gives to no process
  const char *source; ///< source of the figures
  /// Cost of a byte of 16-bit floats in a kernel, in bytes of f32. It is 2 where the kernel
  /// converts each element to f32: the conversion takes the time that the smaller type saves.
  double bytes16 = 1;
};

/// Returns all machines that plans can be made for, in the order in which their targets were
/// registered (lib/Target/Target.h).
std::vector<const Rates *> knownRates();
/// Returns the rates of a machine by name, or null.
const Rates *ratesNamed(llvm::StringRef name);

} // namespace shale

#endif // SHALE_TARGET_MACHINES_H
