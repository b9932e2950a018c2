// Connects a rank with its peers; the exchanges of a single rank.
#include "runtime/comm/Connection.h"
#include "runtime/comm/Staged.h"
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Types.h"

#include <algorithm>

namespace shale::rt {

namespace {
/// Gathers, sums and exchanges over one rank are copies.
class LoneCollectives final : public Collectives {
public:
  explicit LoneCollectives(Device &device) : device(device) {}
  void start(int32_t, ShaleCollectiveKind, const void *send, void *recv, int64_t count,
             ShaleType type) override {
    if (send != recv)
      device.copy(recv, send, count * sizeOf(static_cast<Dtype>(type)));
  }
  void wait(int32_t) override {}
  int64_t bytesSent(int32_t) const override { return 0; }

private:
  Device &device;
};

class NoPeers final : public Peers {
public:
  int64_t agree(int64_t value) override { return value; }
  std::vector<std::string> gather(const std::string &text) override { return {text}; }
  void send(int, const void *, int64_t) override {}
  void receive(int, void *, int64_t) override {}
  std::string nameOf(int rank) const override { return format("rank %d", rank); }
  std::vector<int> findSilent(const std::vector<int> &, double) override { return {}; }
};
} // namespace

const char *kindName(ShaleCollectiveKind kind) { return traitsOf(kind).name; }

const CollectiveTraits &traitsOf(int32_t kind) {
  static constexpr CollectiveTraits rows[] = {
#define SHALE_COLLECTIVE(NAME, Name, text, number, sends, receives, sums)                          \
  {text, sends != 0, receives != 0, sums != 0},
#include "shale/Collectives.def"
#undef SHALE_COLLECTIVE
  };
  return rows[kind];
}

int64_t bytesSent(const ShaleProgram &program, const Collectives &collectives) {
  int64_t bytes = 0;
  for (int32_t site = 0; site < program.site_count; ++site)
    bytes += collectives.bytesSent(site);
  return bytes;
}

int64_t scratchBytes(const ShaleProgram &program) {
  int64_t largest = 1;
  for (int a = 0; a < axisTotal(program); ++a)
    largest = std::max(largest, axisSize(program, a));
  if (largest == 1 && program.site_count == 0)
    return 0;
  // Two halves, each with a piece of at least 64 bytes from every peer.
  return std::max(program.comm_scratch_bytes, 2 * largest * 64);
}

Connection connect(const ShaleProgram &program, const Rendezvous &rendezvous, double timeout,
                   Device &device, bool staged, bool writers, const Admit &admit) {
  bool throughHost = staged || !device.hasCollectives();
  if (rendezvous.worldSize == 1) {
    // A program without collectives does not open the communication library.
    auto alone = std::make_unique<NoPeers>();
    auto collectives = throughHost || program.site_count == 0
                           ? std::unique_ptr<Collectives>(new LoneCollectives(device))
                           : connectDevices(program, 0, *alone, device, timeout);
    return {std::move(alone), std::move(collectives),
            writers ? std::make_unique<NoPeers>() : nullptr};
  }
  Connection made = connectGloo(program, rendezvous, timeout, throughHost, writers, admit);
  if (!throughHost)
    made.collectives = connectDevices(program, rendezvous.rank, *made.peers, device, timeout);
  else if (!device.sharesMemory())
    made.collectives = makeStagedCollectives(program, device, std::move(made.collectives));
  return made;
}

} // namespace shale::rt
