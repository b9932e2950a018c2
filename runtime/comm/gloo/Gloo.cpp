// Collectives over Gloo. A thread of its own executes them in the order they
// were started, so that they run while kernels do. Per axis there is one Gloo
// context for this rank's sub-group; the runtime's exchanges between steps have
// another over all ranks.
//
// Algorithms, with N ranks on the axis and s the bytes of one slice:
//   all-gather      Gloo's ring                           sends (N-1) s
//   reduce-scatter  all-to-all, then the sum in rank order  sends (N-1) s
//   all-reduce      reduce-scatter and all-gather of ceil(count/N) elements a
//                   slice                                 sends 2 (N-1) s
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/core/Error.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Types.h"
#include "runtime/device/host/Host.h"
#include "runtime/metrics/Trace.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <gloo/allgather.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>
#include <mutex>
#include <thread>

namespace shale::rt {

namespace {
using std::chrono::milliseconds;
using Context = std::shared_ptr<gloo::rendezvous::Context>;

const char *kindName(ShaleCollectiveKind kind) {
  static const char *const names[] = {"all-gather", "reduce-scatter",
                                      "all-reduce"};
  return names[kind];
}

struct Request {
  int32_t site;
  ShaleCollectiveKind kind;
  const char *send;
  char *recv;
  int64_t count;
  ShaleType type;
};

class GlooCommunicator : public Communicator {
public:
  GlooCommunicator(const ShaleProgram &program, const Place &place,
                   double timeoutSeconds);

  void start(int32_t site, ShaleCollectiveKind kind, const void *send,
             void *recv, int64_t count, ShaleType type) override;
  void wait(int32_t site) override;
  int64_t bytesSent() const override { return sent.load(); }

  int64_t agree(int64_t value) override;
  std::vector<std::string> gather(const std::string &text) override;
  void send(int to, const void *data, int64_t bytes) override;
  void receive(int from, void *data, int64_t bytes) override;

private:
  void work();
  void execute(const Request &request);
  void allGatherInPlace(Context &context, char *data, int64_t bytes);
  void reduceScatter(Context &context, const char *send, char *recv,
                     int64_t count, ShaleType type);
  void allReduce(Context &context, const Request &request);
  void allReduceTail(Context &context, const char *send, char *recv,
                     int64_t count, ShaleType type);
  template <typename Body> void orFail(const char *what, Body body);

  const ShaleProgram &program;
  milliseconds timeout;
  Context world;                // exchanges between steps
  std::vector<Context> perAxis; // null where the axis has one rank
  Block scratch;
  Block tail; // of all-reduces that do not divide: an element a rank, twice
  std::vector<const void *> sources;
  std::atomic<int64_t> sent{0};
  uint64_t nextSlot = 0;       // of compiled collectives, on the worker thread
  uint64_t worldSlot = 0;      // of exchanges, on the main thread
  std::vector<int64_t> values; // of an agreement, by rank

  // Queue: a ring with room for every site, each of which is in it at most
  // once.
  std::mutex mutex;
  std::condition_variable posted, finished;
  std::vector<Request> ring;
  size_t head = 0, queued = 0;
  std::vector<char> busy; // by site
};

GlooCommunicator::GlooCommunicator(const ShaleProgram &program,
                                   const Place &place, double timeoutSeconds)
    : program(program), timeout(static_cast<int64_t>(timeoutSeconds * 1000)),
      scratch(scratchBytes(program), "receive scratch"),
      tail(place.worldSize * 16, "receive scratch") {
  orFail("rendezvous", [&] {
    std::unique_ptr<gloo::rendezvous::Store> store = openStore(place, timeout);
    gloo::transport::tcp::attr attr;
    const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
    if (interface && place.localSize != place.worldSize)
      attr.iface = interface;
    else
      attr.hostname = ownAddress(place);
    auto device = gloo::transport::tcp::CreateDevice(attr);
    auto join = [&](const std::string &prefix, int rank, int size) {
      auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
      context->setTimeout(timeout);
      gloo::rendezvous::PrefixStore scoped(prefix, *store);
      context->connectFullMesh(scoped, device);
      return context;
    };
    world = join("world", place.rank, place.worldSize);
    std::vector<int64_t> own = coordinatesOf(program, place.rank);
    for (int a = 0; a < program.axis_count; ++a) {
      int size = static_cast<int>(program.axes[a].size);
      if (size == 1) {
        perAxis.push_back(nullptr);
        continue;
      }
      std::string prefix = format("axis%d", a);
      for (int b = 0; b < program.axis_count; ++b)
        prefix += b == a ? ".x" : format(".%lld", (long long)own[b]);
      perAxis.push_back(join(prefix, static_cast<int>(own[a]), size));
      sources.resize(std::max(sources.size(), size_t(size)));
    }
  });
  values.resize(place.worldSize);
  ring.resize(std::max(program.site_count, 1));
  busy.resize(std::max(program.site_count, 1));
  std::thread([this] { work(); }).detach();
}

template <typename Body>
void GlooCommunicator::orFail(const char *what, Body body) {
  try {
    body();
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) {
    fail(SHALE_EXIT_PEER,
         "%s failed: a peer ended or did not answer within %.1f s (%s)", what,
         timeout.count() / 1000.0, error.what());
  }
}

void GlooCommunicator::start(int32_t site, ShaleCollectiveKind kind,
                             const void *send, void *recv, int64_t count,
                             ShaleType type) {
  Request request{
      site,  kind, static_cast<const char *>(send), static_cast<char *>(recv),
      count, type};
  {
    std::unique_lock<std::mutex> lock(mutex);
    if (busy[site] || queued == ring.size())
      die(SHALE_EXIT_INTERNAL,
          format("%s '%s' is started again before it was waited for",
                 kindName(kind), program.sites[site].name));
    busy[site] = 1;
    ring[(head + queued++) % ring.size()] = request;
  }
  posted.notify_one();
}

void GlooCommunicator::wait(int32_t site) {
  std::unique_lock<std::mutex> lock(mutex);
  finished.wait(lock, [&] { return !busy[site]; });
}

void GlooCommunicator::work() {
  for (;;) {
    Request request;
    {
      std::unique_lock<std::mutex> lock(mutex);
      posted.wait(lock, [&] { return queued != 0; });
      request = ring[head];
    }
    try {
      int64_t begin = tracing() ? traceNow() : 0;
      execute(request);
      if (tracing() && begin)
        traceSpan(TraceStream::Communication, kindName(request.kind),
                  program.sites[request.site].name, begin,
                  program.sites[request.site].sent_bytes);
    } catch (const std::exception &error) {
      die(SHALE_EXIT_PEER,
          format("%s '%s' failed: a peer ended or did not answer within %.1f s "
                 "(%s)",
                 kindName(request.kind), program.sites[request.site].name,
                 timeout.count() / 1000.0, error.what()));
    }
    {
      std::lock_guard<std::mutex> lock(mutex);
      head = (head + 1) % ring.size();
      --queued;
      busy[request.site] = 0;
    }
    finished.notify_all();
  }
}

void GlooCommunicator::execute(const Request &request) {
  Context &context = perAxis[program.sites[request.site].axis];
  int64_t bytes = request.count * sizeOf(static_cast<Dtype>(request.type));
  if (!context) {
    if (request.send != request.recv)
      std::memmove(request.recv, request.send, bytes);
    return;
  }
  int64_t others = context->size - 1;
  switch (request.kind) {
  case SHALE_ALL_GATHER: {
    char *own = request.recv + context->rank * bytes;
    if (request.send != own)
      std::memcpy(own, request.send, bytes);
    allGatherInPlace(context, request.recv, bytes);
    sent += others * bytes;
    return;
  }
  case SHALE_REDUCE_SCATTER:
    reduceScatter(context, request.send, request.recv, request.count,
                  request.type);
    sent += others * bytes;
    return;
  case SHALE_ALL_REDUCE:
    return allReduce(context, request);
  }
}

/// The own slice is already at its place in `data`, `bytes` a slice.
void GlooCommunicator::allGatherInPlace(Context &context, char *data,
                                        int64_t bytes) {
  if (bytes == 0)
    return;
  gloo::AllgatherOptions options(context);
  options.setTag(static_cast<uint32_t>(nextSlot++));
  options.setTimeout(timeout);
  options.setOutput(data, bytes * context->size);
  gloo::allgather(options);
}

/// recv[0..count) = sum over ranks r of r's send[own * count ..]. The slices of
/// others arrive in pieces in two halves of the scratch: one is summed while
/// the other fills. send[own * count] may be recv.
void GlooCommunicator::reduceScatter(Context &context, const char *send,
                                     char *recv, int64_t count,
                                     ShaleType type) {
  int size = context->size, own = context->rank;
  int64_t element = sizeOf(static_cast<Dtype>(type));
  int64_t room = scratch.size() / 2 / (size - 1) / 64 * 64;
  int64_t piece = std::min(std::max<int64_t>(room / element, 1), count);
  if (piece == 0)
    return;
  int64_t pieces = (count + piece - 1) / piece;
  // Slots keep messages of one pair apart; the top byte keeps ours apart from
  // those of Gloo's own collectives.
  uint64_t base = nextSlot;
  nextSlot += pieces;
  auto slot = [&](int64_t p) { return (0x7full << 56) | (base + p); };
  auto length = [&](int64_t p) { return std::min(piece, count - p * piece); };

  auto out = context->createUnboundBuffer(const_cast<char *>(send),
                                          size * count * element);
  std::unique_ptr<gloo::transport::UnboundBuffer> in[2];
  int64_t half = room * (size - 1);
  for (int h = 0; h < 2; ++h)
    in[h] = context->createUnboundBuffer(scratch.data() + h * half, half);
  auto indexOf = [&](int peer) { return peer < own ? peer : peer - 1; };
  auto post = [&](int64_t p) {
    for (int step = 1; step < size; ++step) {
      int peer = (own + size - step) % size;
      in[p % 2]->recv(peer, slot(p), indexOf(peer) * room, length(p) * element);
    }
  };
  for (int64_t p = 0; p < std::min<int64_t>(2, pieces); ++p)
    post(p);
  for (int64_t p = 0; p < pieces; ++p) {
    for (int step = 1; step < size; ++step) {
      int peer = (own + step) % size;
      out->send(peer, slot(p), (peer * count + p * piece) * element,
                length(p) * element);
    }
    for (int step = 1; step < size; ++step)
      if (!in[p % 2]->waitRecv(timeout))
        fail(SHALE_EXIT_PEER, "receive was aborted");
    for (int r = 0; r < size; ++r)
      sources[r] = r == own ? send + (own * count + p * piece) * element
                            : scratch.data() + p % 2 * half + indexOf(r) * room;
    sumInOrder(type, sources.data(), size, recv + p * piece * element,
               length(p));
    if (p + 2 < pieces)
      post(p + 2);
    for (int step = 1; step < size; ++step)
      if (!out->waitSend(timeout))
        fail(SHALE_EXIT_PEER, "send was aborted");
  }
}

void GlooCommunicator::allReduce(Context &context, const Request &request) {
  int64_t size = context->size;
  int64_t element = sizeOf(static_cast<Dtype>(request.type));
  int64_t slice = request.count / size, even = slice * size;
  if (slice > 0) {
    char *own = request.recv + context->rank * slice * element;
    reduceScatter(context, request.send, own, slice, request.type);
    allGatherInPlace(context, request.recv, slice * element);
  }
  if (request.count > even)
    allReduceTail(context, request.send + even * element,
                  request.recv + even * element, request.count - even,
                  request.type);
  sent += 2 * (size - 1) * ((request.count + size - 1) / size) * element;
}

/// Fewer elements than ranks: padded to one a rank, on a buffer of its own.
void GlooCommunicator::allReduceTail(Context &context, const char *send,
                                     char *recv, int64_t count,
                                     ShaleType type) {
  int64_t element = sizeOf(static_cast<Dtype>(type));
  int size = context->size;
  char *padded = tail.data(), *result = padded + size * 8;
  std::memset(padded, 0, size * element);
  std::memcpy(padded, send, count * element);
  reduceScatter(context, padded, result + context->rank * element, 1, type);
  allGatherInPlace(context, result, element);
  std::memcpy(recv, result, count * element);
}

int64_t GlooCommunicator::agree(int64_t value) {
  orFail("agreement between steps", [&] {
    gloo::AllgatherOptions options(world);
    options.setTag(static_cast<uint32_t>(worldSlot++));
    options.setTimeout(timeout);
    options.setInput(&value, 1);
    options.setOutput(values.data(), values.size());
    gloo::allgather(options);
  });
  return *std::max_element(values.begin(), values.end());
}

void GlooCommunicator::send(int to, const void *data, int64_t bytes) {
  orFail("sending state", [&] {
    auto buffer = world->createUnboundBuffer(const_cast<void *>(data), bytes);
    buffer->send(to, 0x7eull << 56);
    if (!buffer->waitSend(timeout))
      fail(SHALE_EXIT_PEER, "sending state to rank %d was aborted", to);
  });
}

void GlooCommunicator::receive(int from, void *data, int64_t bytes) {
  orFail("receiving state", [&] {
    auto buffer = world->createUnboundBuffer(data, bytes);
    buffer->recv(from, 0x7eull << 56);
    if (!buffer->waitRecv(timeout))
      fail(SHALE_EXIT_PEER, "receiving state from rank %d was aborted", from);
  });
}

std::vector<std::string> GlooCommunicator::gather(const std::string &text) {
  int64_t length = text.size();
  if (world->rank != 0) {
    send(0, &length, sizeof(length));
    if (length)
      send(0, text.data(), length);
    return {};
  }
  std::vector<std::string> texts{text};
  for (int r = 1; r < world->size; ++r) {
    receive(r, &length, sizeof(length));
    texts.emplace_back(length, '\0');
    if (length)
      receive(r, texts.back().data(), length);
  }
  return texts;
}
} // namespace

std::unique_ptr<Communicator> connectGloo(const ShaleProgram &program,
                                          const Place &place, double timeout) {
  return std::make_unique<GlooCommunicator>(program, place, timeout);
}

} // namespace shale::rt
