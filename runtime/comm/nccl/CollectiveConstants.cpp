// Numbers in device memory that collectives read.
#include "runtime/comm/nccl/CollectiveConstants.h"
#include "runtime/core/Rank.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace shale::rt {

CollectiveConstants::CollectiveConstants(const ShaleProgram &program, Device &device) {
  int64_t largest = 1;
  for (int a = 0; a < axisTotal(program); ++a)
    largest = std::max(largest, axisSize(program, a));
  rowBytes = (2 * largest + 63) / 64 * 64;
  memory = device.allocate(SHALE_SPACE_DEVICE, 2 * rowBytes + 4 + 4 * program.site_count,
                           "constants of collectives");
  std::vector<uint16_t> values(memory->size() / 2, 0);
  std::fill_n(values.begin(), largest, 0x3f80);                // 1 in bf16
  std::fill_n(values.begin() + rowBytes / 2, largest, 0x3c00); // 1 in f16
  uint32_t flag = 1;
  std::memcpy(values.data() + rowBytes, &flag, sizeof(flag));
  device.write(memory->data(), values.data(), memory->size());
}

} // namespace shale::rt
