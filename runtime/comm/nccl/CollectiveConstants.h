// Numbers in device memory that collectives read.
#ifndef SHALE_RUNTIME_COMM_NCCL_COLLECTIVECONSTANTS_H
#define SHALE_RUNTIME_COMM_NCCL_COLLECTIVECONSTANTS_H

#include "runtime/device/Device.h"

#include <memory>

namespace shale::rt {

/// Device memory that is written once. Every stream may read it.
class CollectiveConstants {
public:
  CollectiveConstants(const ShaleProgram &program, Device &device);

  /// A row of ones in bf16 or f16, with an element per rank of the largest axis.
  const char *ones(ShaleType type) const {
    return memory->data() + (type == SHALE_BF16 ? 0 : rowBytes);
  }
  /// The number 1 in 32 bits.
  const char *one() const { return memory->data() + 2 * rowBytes; }
  /// The number 0 in 32 bits for each site.
  const char *zeros() const { return one() + 4; }

private:
  int64_t rowBytes; // from a row of ones to the next
  std::unique_ptr<Memory> memory;
};

} // namespace shale::rt

#endif
