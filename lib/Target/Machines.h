//===- Machines.h - What machines do in a second --------------------------===//
#ifndef SHALE_TARGET_MACHINES_H
#define SHALE_TARGET_MACHINES_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace shale {

/// Rates of one rank's machine, for ordering plans (lib/Analysis/TimeModel.h).
struct Rates {
  const char *name;
  double flops;     ///< f32 operations of matrix products
  double halfFlops; ///< bf16 and f16 operations of matrix products
  double memory;    ///< bytes read or written by kernels
  double link;      ///< bytes that a rank sends to others
  double host;      ///< bytes copied between device and host
  double hostMemory; ///< bytes of host memory read or written by what runs there, a rank's share
  double launch;    ///< seconds before a kernel or product begins
  double collective; ///< seconds before a collective's first byte
  bool oneMemory;     ///< what the host keeps lies in the device's own memory, one RAM
  const char *source; ///< where the figures come from
};

/// Every machine that plans can be made for; the default first.
llvm::ArrayRef<Rates> knownRates();
/// By name; null if there is none.
const Rates *ratesNamed(llvm::StringRef name);

} // namespace shale

#endif // SHALE_TARGET_MACHINES_H
