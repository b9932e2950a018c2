// Calls compiled functions on a device that only notes matmuls.
#include "runtime/program/calls/Matmuls.h"
#include "runtime/comm/Collectives.h"
#include "runtime/core/Error.h"
#include "runtime/core/Profile.h"

namespace shale::rt {

namespace {

/// A device without memory that does nothing.
class NotingDevice final : public Device {
public:
  std::string describe() const override { return "none"; }
  bool sharesMemory() const override { return false; }
  std::unique_ptr<Memory> allocate(ShaleSpace, int64_t, const char *what) override {
    fail(SHALE_EXIT_INTERNAL, "a function of the program allocates %s", what);
  }
  void read(void *, const char *, int64_t) override {}
  void write(char *, const void *, int64_t) override {}
  void launch(const Launch &) override {}
  void multiply(const Matmul &matmul) override {
    if (matmul.epilogue) // which a device may compute apart
      matmuls.push_back(matmul.alone());
    matmuls.push_back(matmul);
  }
  void attend(const Attention &) override {}
  void copy(void *, const void *, int64_t) override {}
  void copyAcross(void *, const void *, int64_t) override {}
  void fill(void *, int, int64_t) override {}
  void store(int64_t *, int64_t) override {}
  void startCopy(int32_t, void *, const void *, int64_t) override {}
  void waitCopy(int32_t) override {}
  void finish() override {}
  std::unique_ptr<Mark> makeMark() override {
    fail(SHALE_EXIT_INTERNAL, "a function of the program waits for the device");
  }
  void call(ShaleFunction, bool, const std::function<void()> &body) override { body(); }

  std::vector<Matmul> matmuls;
};

class NoCollectives final : public Collectives {
public:
  void start(int32_t, ShaleCollectiveKind, const void *, void *, int64_t, ShaleType) override {}
  void wait(int32_t) override {}
  int64_t bytesSent(int32_t) const override { return 0; }
};

} // namespace

std::vector<Matmul> listMatmuls(ShaleRank &rank, const std::function<void()> &call) {
  NotingDevice device;
  NoCollectives collectives;
  Device *realDevice = rank.device;
  Collectives *realCollectives = rank.collectives;
  rank.device = &device;
  rank.collectives = &collectives;
  pauseProfile(true);
  call();
  pauseProfile(false);
  rank.device = realDevice;
  rank.collectives = realCollectives;
  rank.node = nullptr;
  return std::move(device.matmuls);
}

} // namespace shale::rt
