// The collectives' C entry points and the communicator of a single rank.
#include "runtime/comm/Communicator.h"
#include "runtime/comm/Rendezvous.h"
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Trace.h"
#include "runtime/core/Types.h"
#include "runtime/core/Watch.h"
#include "runtime/device/host/Host.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace shale::rt {

namespace {
/// The communicator of a single rank: gathers and sums are copies.
class Alone : public Communicator {
public:
  void start(int32_t, ShaleCollectiveKind, const void *send, void *recv, int64_t count,
             ShaleType type) override {
    if (send != recv)
      std::memmove(recv, send, count * sizeOf(static_cast<Dtype>(type)));
  }
  void wait(int32_t) override {}
  int64_t bytesSent() const override { return 0; }
  int64_t agree(int64_t value) override { return value; }
  std::vector<std::string> gather(const std::string &text) override { return {text}; }
  void send(int, const void *, int64_t) override {}
  void receive(int, void *, int64_t) override {}
};
} // namespace

int64_t scratchBytes(const ShaleProgram &program) {
  int64_t largest = 1;
  for (int a = 0; a < program.axis_count; ++a)
    largest = std::max(largest, program.axes[a].size);
  if (largest == 1)
    return 0;
  // Two halves, each with a piece of at least 64 bytes from every peer.
  return std::max(program.comm_scratch_bytes, 2 * largest * 64);
}

std::unique_ptr<Communicator> connect(const ShaleProgram &program, const Rendezvous &rendezvous,
                                      double timeout) {
  if (rendezvous.worldSize == 1)
    return std::make_unique<Alone>();
  return connectGloo(program, rendezvous, timeout);
}

} // namespace shale::rt

static void startCollective(ShaleRank *rank, int32_t site, ShaleCollectiveKind kind,
                            const void *send, void *recv, int64_t count, int32_t type) {
  if (rank->watch)
    rank->watch->start(site, send, recv, count, type);
  rank->communicator->start(site, kind, send, recv, count, static_cast<ShaleType>(type));
}

extern "C" void shale_all_gather_start(ShaleRank *rank, int32_t site, const void *send, void *recv,
                                       int64_t count, int32_t type) {
  startCollective(rank, site, SHALE_ALL_GATHER, send, recv, count, type);
}

extern "C" void shale_reduce_scatter_start(ShaleRank *rank, int32_t site, const void *send,
                                           void *recv, int64_t count, int32_t type) {
  startCollective(rank, site, SHALE_REDUCE_SCATTER, send, recv, count, type);
}

extern "C" void shale_all_reduce_start(ShaleRank *rank, int32_t site, const void *send, void *recv,
                                       int64_t count, int32_t type) {
  startCollective(rank, site, SHALE_ALL_REDUCE, send, recv, count, type);
}

extern "C" void shale_wait(ShaleRank *rank, int32_t site) {
  using namespace shale::rt;
  if (rank->watch)
    rank->watch->wait(site);
  if (tracing()) {
    int64_t begin = traceNow();
    rank->communicator->wait(site);
    return traceSpan(TraceStream::Compute, "wait", rank->program->sites[site].name, begin);
  }
  if (!profiling())
    return rank->communicator->wait(site);
  double start = profileNow();
  rank->communicator->wait(site);
  static const char *const kinds[] = {"all-gather", "reduce-scatter", "all-reduce"};
  const ShaleSite &what = rank->program->sites[site];
  char name[64];
  snprintf(name, sizeof(name), "wait %s %s", kinds[what.kind], what.name);
  profileAdd(name, start);
}
