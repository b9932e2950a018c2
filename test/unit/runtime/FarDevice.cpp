// A device whose memory the process cannot touch: its pages are inaccessible except inside a call
// of the device and inside a compiled function (FarAccess). Programs linked with this file in place
// of the host device end with a segmentation fault where the runtime bypasses the device.
//
// Its work runs as late as it may: when the process waits for it (LateDevice.h).
#include "FarDevice.h"
#include "LateDevice.h"
#include "runtime/core/Error.h"

#include <sys/mman.h>
#include <vector>

using namespace shale::rt;

namespace {
struct Range {
  char *start;
  size_t bytes;
};
std::vector<Range> ranges;
int depth = 0;

void setAccess(int access) {
  for (Range range : ranges)
    if (mprotect(range.start, range.bytes, access) != 0)
      die(SHALE_EXIT_INTERNAL, "mprotect failed");
}

class FarMemory final : public Memory {
public:
  explicit FarMemory(int64_t bytes) {
    length = bytes;
    if (bytes == 0)
      return;
    size_t pages = (bytes + 4095) / 4096 * 4096;
    void *memory = mmap(nullptr, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
      fail(SHALE_EXIT_NO_FIT, "no far memory");
    start = static_cast<char *>(memory);
    ranges.push_back({start, pages});
  }
};

class FarDevice final : public LateDevice {
public:
  using LateDevice::LateDevice;

  std::string describe() const override { return "far"; }
  bool sharesMemory() const override { return false; }
  std::unique_ptr<Memory> allocate(ShaleSpace space, int64_t bytes, const char *what) override {
    if (space == SHALE_SPACE_HOST)
      return HostDevice::allocate(space, bytes, what);
    return std::make_unique<FarMemory>(bytes);
  }
  void read(void *target, const char *source, int64_t bytes) override {
    FarAccess access;
    LateDevice::read(target, source, bytes);
  }
  void write(char *target, const void *source, int64_t bytes) override {
    FarAccess access;
    LateDevice::write(target, source, bytes);
  }
  void finish() override {
    FarAccess access;
    LateDevice::finish();
  }
  void runTo(int64_t count) override {
    FarAccess access;
    LateDevice::runTo(count);
  }
  void fill(void *target, int byte, int64_t bytes) override {
    FarAccess access;
    HostDevice::fill(target, byte, bytes);
  }
  void store(int64_t *target, int64_t value) override {
    FarAccess access;
    HostDevice::store(target, value);
  }
};
} // namespace

FarAccess::FarAccess() {
  if (depth++ == 0)
    setAccess(PROT_READ | PROT_WRITE);
}

FarAccess::~FarAccess() {
  if (--depth == 0)
    setAccess(PROT_NONE);
}

void shale::rt::checkDevice(const ShaleProgram &, const DeviceOptions &) {}

std::unique_ptr<Device> shale::rt::openDevice(const ShaleProgram &program, const DeviceOptions &) {
  return std::make_unique<FarDevice>(program);
}
