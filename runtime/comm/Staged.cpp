// Collectives of a device with its own memory, through the host's memory.
#include "runtime/comm/Staged.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Types.h"

#include <vector>

namespace shale::rt {

namespace {

class StagedCollectives final : public Collectives {
public:
  StagedCollectives(const ShaleProgram &program, Device &device, std::unique_ptr<Collectives> host)
      : program(program), device(device), host(std::move(host)), flights(program.site_count) {}

  void start(int32_t site, ShaleCollectiveKind kind, const void *send, void *recv, int64_t count,
             ShaleType type) override {
    int64_t slice = count * sizeOf(static_cast<Dtype>(type)),
            whole = slice * axisSize(program, program.sites[site].axis);
    Flight &flight = flights[site];
    flight.bytes = receivesAll(kind) ? whole : slice;
    flight.target = static_cast<char *>(recv);
    int64_t sent = sendsAll(kind) ? whole : slice;
    char *from = room(flight.send, sent), *to = room(flight.recv, flight.bytes);
    device.read(from, static_cast<const char *>(send), sent);
    host->start(site, kind, from, to, count, type);
  }

  void wait(int32_t site) override {
    host->wait(site);
    Flight &flight = flights[site];
    device.write(flight.target, flight.recv->data(), flight.bytes);
  }

  int64_t bytesSent(int32_t site) const override { return host->bytesSent(site); }
  void watchNode(const char *const *node) override { host->watchNode(node); }

private:
  struct Flight {
    std::unique_ptr<Memory> send, recv;
    char *target = nullptr;
    int64_t bytes = 0; // of the result
  };

  /// Returns at least `bytes` of host memory, which stay allocated for the next run of the site.
  char *room(std::unique_ptr<Memory> &block, int64_t bytes) {
    if (!block || block->size() < bytes) {
      try {
        block = device.allocate(SHALE_SPACE_HOST, bytes, "a staged collective");
      } catch (const Error &error) { // cannot unwind compiled code
        die(error.code, error.what());
      }
    }
    return block->data();
  }

  const ShaleProgram &program;
  Device &device;
  std::unique_ptr<Collectives> host;
  std::vector<Flight> flights; // by site
};

} // namespace

std::unique_ptr<Collectives> makeStagedCollectives(const ShaleProgram &program, Device &device,
                                                   std::unique_ptr<Collectives> host) {
  return std::make_unique<StagedCollectives>(program, device, std::move(host));
}

} // namespace shale::rt
