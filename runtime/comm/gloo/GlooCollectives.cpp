// Collectives over Gloo. A worker thread executes them in the order in which they
// were started, so that they overlap with kernels. Per axis there is one Gloo
// context for this rank's sub-group.
//
// Algorithms, with N ranks on the axis and s the bytes of one slice:
//   all-gather      around a ring                         sends (N-1) s
//   reduce-scatter  all-to-all, then the sum in rank order  sends (N-1) s
//   all-reduce      reduce-scatter and all-gather of ceil(count/N) elements per
//                   slice                                 sends 2 (N-1) s
//   all-to-all      each slice straight to its rank       sends (N-1) s
//
// Reductions of one bucket form one exchange. Each rank sends every peer the
// concatenation of that peer's slices. The gathers of a bucket, and its all-to-alls, are under way
// together.
//
// Bytes are counted where they are handed to Gloo, in post(), by site.
#include "runtime/comm/gloo/Gloo.h"
#include "runtime/core/Trace.h"
#include "runtime/core/Types.h"
#include "runtime/device/host/Host.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>

namespace shale::rt {

namespace {
using std::chrono::milliseconds;

class GlooCollectives final : public Collectives {
public:
  GlooCollectives(const ShaleProgram &program, std::vector<GlooContext> perAxis,
                  milliseconds timeout);

  void start(int32_t site, ShaleCollectiveKind kind, const void *send, void *recv, int64_t count,
             ShaleType type) override;
  void wait(int32_t site) override;
  int64_t bytesSent(int32_t site) const override { return sent[site].load(); }
  void watchNode(const char *const *running) override { node = running; }

private:
  using Buffer = gloo::transport::UnboundBuffer;
  /// A reduce-scatter of a site: recv gets this rank's `count` elements.
  struct Part {
    int32_t site;
    const char *send;
    char *recv;
    int64_t count;
  };
  /// An all-gather of a site: this rank's slice of `bytes` is in its place in `data`.
  struct Whole {
    int32_t site;
    char *data;
    int64_t bytes;
  };
  /// Elements of a part's slice that are sent as one message to each peer; they are
  /// received `at` bytes into that peer's region of the scratch buffer.
  struct Chunk {
    size_t part;
    int64_t begin, length, at;
  };

  void work();
  void execute();
  void post(int32_t site, Buffer &from, int peer, uint64_t slot, int64_t at, int64_t bytes);
  uint64_t takeSlots(size_t count);
  int64_t sentByBatch() const;
  std::string describe(const Request &request) const;
  void allGatherInPlace(GlooContext &context);
  void allToAll(GlooContext &context, int64_t element);
  void cutIntoRounds(int64_t element, int64_t room);
  void reduceScatter(GlooContext &context, ShaleType type);
  void allReduce(GlooContext &context);
  void allReduceTail(int32_t site, GlooContext &context, const char *send, char *recv,
                     int64_t count, ShaleType type);

  const ShaleProgram &program;
  milliseconds timeout;
  std::vector<GlooContext> perAxis; // null where the axis has one rank
  Block scratch;
  Block tail; // for all-reduces that do not divide: one element per rank, twice
  std::vector<const void *> sources;
  // State of the exchange in progress; the vectors keep their capacity.
  std::vector<Request> batch;
  std::vector<Part> parts;
  std::vector<Whole> wholes;
  std::vector<Chunk> chunks;
  std::vector<size_t> rounds; // first chunk of each round, and the end
  std::vector<std::unique_ptr<Buffer>> outgoing, incoming;
  std::vector<std::atomic<int64_t>> sent; // bytes, by site
  uint64_t nextSlot = 0;                  // of messages, on the worker thread
  const char *const *node = nullptr;      // where the node that runs is kept, for messages

  // Queue: a ring with room for every site; each site is in it at most once.
  std::mutex mutex;
  std::condition_variable posted, finished;
  std::vector<Request> ring;
  size_t head = 0, queued = 0;
  std::vector<char> busy; // by site
};

GlooCollectives::GlooCollectives(const ShaleProgram &program, std::vector<GlooContext> contexts,
                                 milliseconds timeout)
    : program(program), timeout(timeout), perAxis(std::move(contexts)),
      scratch(scratchBytes(program), "receive scratch"),
      sent(std::max<int64_t>(program.site_count, 1)) {
  int64_t largest = 0;
  for (const GlooContext &context : perAxis)
    if (context)
      largest = std::max<int64_t>(largest, context->size);
  tail = Block(largest * 16, "receive scratch");
  sources.resize(largest);
  ring.resize(std::max<int64_t>(program.site_count, 1));
  batch.reserve(ring.size());
  busy.resize(std::max<int64_t>(program.site_count, 1));
  std::thread([this] { work(); }).detach();
}

void GlooCollectives::start(int32_t site, ShaleCollectiveKind kind, const void *send, void *recv,
                            int64_t count, ShaleType type) {
  Request request{site,  kind, static_cast<const char *>(send), static_cast<char *>(recv),
                  count, type, node ? *node : nullptr};
  {
    std::unique_lock<std::mutex> lock(mutex);
    if (busy[site] || queued == ring.size())
      die(SHALE_EXIT_INTERNAL, format("%s '%s' is started again before it was waited for",
                                      kindName(kind), program.sites[site].name));
    busy[site] = 1;
    ring[(head + queued++) % ring.size()] = request;
  }
  posted.notify_one();
}

void GlooCollectives::wait(int32_t site) {
  std::unique_lock<std::mutex> lock(mutex);
  finished.wait(lock, [&] { return !busy[site]; });
}

/// Executes requests in order; those of one bucket together.
void GlooCollectives::work() {
  for (;;) {
    {
      std::unique_lock<std::mutex> lock(mutex);
      posted.wait(lock, [&] { return queued != 0; });
      const ShaleSite &site = program.sites[ring[head].site];
      size_t count = std::max(site.bucket_size, 1);
      posted.wait(lock, [&] { return queued >= count; });
      batch.clear();
      for (size_t i = 0; i < count; ++i)
        batch.push_back(ring[(head + i) % ring.size()]);
    }
    const Request &first = batch.front();
    try {
      int64_t begin = tracing() ? traceNow() : 0, before = begin ? sentByBatch() : 0;
      execute();
      if (tracing() && begin)
        traceSpan(TraceStream::Communication, kindName(first.kind), program.sites[first.site].name,
                  begin, sentByBatch() - before);
    } catch (const std::exception &error) {
      die(SHALE_EXIT_PEER, describe(first) + " failed: " + error.what());
    }
    {
      std::lock_guard<std::mutex> lock(mutex);
      head = (head + batch.size()) % ring.size();
      queued -= batch.size();
      for (const Request &request : batch)
        busy[request.site] = 0;
    }
    finished.notify_all();
  }
}

/// Returns kind and name of a collective, and the node that was running when it was started.
std::string GlooCollectives::describe(const Request &request) const {
  std::string text = format("%s '%s'", kindName(request.kind), program.sites[request.site].name);
  if (request.node && *request.node)
    text += format(" after node '%s'", request.node);
  return text;
}

int64_t GlooCollectives::sentByBatch() const {
  int64_t bytes = 0;
  for (const Request &request : batch)
    bytes += sent[request.site];
  return bytes;
}

/// Sends `bytes` from `at` of a buffer to a peer, and counts them.
void GlooCollectives::post(int32_t site, Buffer &from, int peer, uint64_t slot, int64_t at,
                           int64_t bytes) {
  from.send(peer, slot, at, bytes);
  sent[site] += bytes;
}

/// Returns the first of `count` slots for messages. Slots distinguish the messages of a pair of
/// ranks; the top byte distinguishes them from those of Gloo's own collectives.
uint64_t GlooCollectives::takeSlots(size_t count) {
  uint64_t first = (0x7full << 56) | nextSlot;
  nextSlot += count;
  return first;
}

/// Executes the batch.
void GlooCollectives::execute() {
  const Request &first = batch.front();
  GlooContext &context = perAxis[program.sites[first.site].axis];
  int64_t element = sizeOf(static_cast<Dtype>(first.type));
  if (!context) {
    for (const Request &request : batch)
      if (request.send != request.recv)
        std::memmove(request.recv, request.send, request.count * element);
    return;
  }
  switch (first.kind) {
  case SHALE_ALL_GATHER:
    wholes.clear();
    for (const Request &request : batch) {
      int64_t bytes = request.count * sizeOf(static_cast<Dtype>(request.type));
      char *own = request.recv + context->rank * bytes;
      if (request.send != own)
        std::memcpy(own, request.send, bytes);
      wholes.push_back({request.site, request.recv, bytes});
    }
    return allGatherInPlace(context);
  case SHALE_REDUCE_SCATTER:
    parts.clear();
    for (const Request &request : batch)
      parts.push_back({request.site, request.send, request.recv, request.count});
    return reduceScatter(context, first.type);
  case SHALE_ALL_REDUCE:
    return allReduce(context);
  case SHALE_ALL_TO_ALL:
    return allToAll(context, element);
  }
}

/// Sends the batch's slices to their ranks, and receives those of all ranks in their places.
void GlooCollectives::allToAll(GlooContext &context, int64_t element) {
  int size = context->size, own = context->rank;
  uint64_t slot = takeSlots(batch.size());
  outgoing.clear();
  incoming.clear();
  for (const Request &request : batch) {
    int64_t bytes = request.count * element;
    outgoing.push_back(
        context->createUnboundBuffer(const_cast<char *>(request.send), size * bytes));
    incoming.push_back(context->createUnboundBuffer(request.recv, size * bytes));
  }
  auto eachMessage = [&](auto body) {
    for (size_t i = 0; i < batch.size(); ++i)
      for (int step = 1; step < size && batch[i].count > 0; ++step)
        body(i, step, batch[i].count * element);
  };
  eachMessage([&](size_t i, int step, int64_t bytes) {
    int peer = (own + size - step) % size;
    incoming[i]->recv(peer, slot + i, peer * bytes, bytes);
  });
  eachMessage([&](size_t i, int step, int64_t bytes) {
    int peer = (own + step) % size;
    post(batch[i].site, *outgoing[i], peer, slot + i, peer * bytes, bytes);
  });
  for (const Request &request : batch) {
    int64_t bytes = request.count * element;
    std::memcpy(request.recv + own * bytes, request.send + own * bytes, bytes);
  }
  eachMessage([&](size_t i, int, int64_t) { incoming[i]->waitRecv(timeout); });
  eachMessage([&](size_t i, int, int64_t) { outgoing[i]->waitSend(timeout); });
  outgoing.clear();
  incoming.clear();
}

/// All-gathers the slices of `wholes` together: every rank passes on to the next one what it
/// received last.
void GlooCollectives::allGatherInPlace(GlooContext &context) {
  int size = context->size, own = context->rank;
  uint64_t slot = takeSlots(wholes.size() * (size - 1));
  outgoing.clear();
  for (const Whole &whole : wholes)
    outgoing.push_back(context->createUnboundBuffer(whole.data, whole.bytes * size));
  auto eachOf = [&](int step, auto body) {
    for (size_t i = 0; i < wholes.size(); ++i)
      if (wholes[i].bytes > 0)
        body(i, slot + (step - 1) * wholes.size() + i);
  };
  auto slice = [&](int step, int64_t bytes) { return (own + size - step) % size * bytes; };
  for (int step = 1; step < size; ++step)
    eachOf(step, [&](size_t i, uint64_t at) {
      int64_t bytes = wholes[i].bytes;
      outgoing[i]->recv((own + size - 1) % size, at, slice(step, bytes), bytes);
    });
  for (int step = 1; step < size; ++step) {
    eachOf(step, [&](size_t i, uint64_t at) {
      int64_t bytes = wholes[i].bytes;
      post(wholes[i].site, *outgoing[i], (own + 1) % size, at, slice(step - 1, bytes), bytes);
    });
    // Slices come from one rank, in the order of its sends.
    eachOf(step, [&](size_t i, uint64_t) { outgoing[i]->waitRecv(timeout); });
  }
  for (int step = 1; step < size; ++step)
    eachOf(step, [&](size_t i, uint64_t) { outgoing[i]->waitSend(timeout); });
  outgoing.clear();
}

/// Cuts the parts' slices, one after the other, into rounds of at most `room` bytes:
/// a peer's region in one half of the scratch buffer.
void GlooCollectives::cutIntoRounds(int64_t element, int64_t room) {
  chunks.clear();
  rounds.assign(1, 0);
  int64_t used = 0;
  for (size_t p = 0; p < parts.size(); ++p)
    for (int64_t begin = 0; begin < parts[p].count;) {
      int64_t length = std::min((room - used) / element, parts[p].count - begin);
      if (length <= 0) {
        rounds.push_back(chunks.size());
        used = 0;
        continue;
      }
      chunks.push_back({p, begin, length, used});
      used = std::min(room, (used + length * element + 63) / 64 * 64);
      begin += length;
    }
  if (rounds.back() != chunks.size())
    rounds.push_back(chunks.size());
}

/// For each part recv[0..count) = sum over ranks r of r's send[own * count ..].
/// The slices of other ranks arrive in rounds in the two halves of the scratch buffer:
/// one is summed while the other is filled. send[own * count] may be recv.
void GlooCollectives::reduceScatter(GlooContext &context, ShaleType type) {
  int size = context->size, own = context->rank;
  int64_t element = sizeOf(static_cast<Dtype>(type));
  int64_t room = scratch.size() / 2 / (size - 1) / 64 * 64;
  cutIntoRounds(element, room);
  uint64_t slot = takeSlots(chunks.size());

  outgoing.clear();
  for (const Part &part : parts)
    outgoing.push_back(
        context->createUnboundBuffer(const_cast<char *>(part.send), size * part.count * element));
  std::unique_ptr<Buffer> in[2];
  int64_t half = room * (size - 1);
  for (int h = 0; h < 2; ++h)
    in[h] = context->createUnboundBuffer(scratch.data() + h * half, half);
  auto indexOf = [&](int peer) { return peer < own ? peer : peer - 1; };
  auto eachMessage = [&](size_t round, auto body) {
    for (size_t c = rounds[round]; c < rounds[round + 1]; ++c)
      for (int step = 1; step < size; ++step)
        body(c, step);
  };
  auto receive = [&](size_t round) {
    eachMessage(round, [&](size_t c, int step) {
      int peer = (own + size - step) % size;
      in[round % 2]->recv(peer, slot + c, indexOf(peer) * room + chunks[c].at,
                          chunks[c].length * element);
    });
  };
  size_t count = rounds.size() - 1;
  for (size_t round = 0; round < std::min<size_t>(2, count); ++round)
    receive(round);
  for (size_t round = 0; round < count; ++round) {
    eachMessage(round, [&](size_t c, int step) {
      int peer = (own + step) % size;
      const Chunk &chunk = chunks[c];
      const Part &part = parts[chunk.part];
      post(part.site, *outgoing[chunk.part], peer, slot + c,
           (peer * part.count + chunk.begin) * element, chunk.length * element);
    });
    eachMessage(round, [&](size_t, int) { in[round % 2]->waitRecv(timeout); });
    for (size_t c = rounds[round]; c < rounds[round + 1]; ++c) {
      const Chunk &chunk = chunks[c];
      const Part &part = parts[chunk.part];
      for (int r = 0; r < size; ++r)
        sources[r] = r == own ? part.send + (own * part.count + chunk.begin) * element
                              : scratch.data() + round % 2 * half + indexOf(r) * room + chunk.at;
      sumInOrder(type, sources.data(), size, part.recv + chunk.begin * element, chunk.length);
    }
    if (round + 2 < count)
      receive(round + 2);
    eachMessage(round, [&](size_t c, int) { outgoing[chunks[c].part]->waitSend(timeout); });
  }
  outgoing.clear();
}

/// All-reduces the batch: reduces the slices together, then gathers each.
void GlooCollectives::allReduce(GlooContext &context) {
  int64_t size = context->size;
  ShaleType type = batch.front().type;
  int64_t element = sizeOf(static_cast<Dtype>(type));
  parts.clear();
  for (const Request &request : batch) {
    int64_t slice = request.count / size;
    if (slice > 0)
      parts.push_back(
          {request.site, request.send, request.recv + context->rank * slice * element, slice});
  }
  if (!parts.empty())
    reduceScatter(context, type);
  wholes.clear();
  for (const Request &request : batch)
    wholes.push_back({request.site, request.recv, request.count / size * element});
  allGatherInPlace(context);
  for (const Request &request : batch) {
    int64_t even = request.count / size * size;
    if (request.count > even)
      allReduceTail(request.site, context, request.send + even * element,
                    request.recv + even * element, request.count - even, type);
  }
}

/// All-reduces fewer elements than ranks: padded to one per rank in a separate buffer.
void GlooCollectives::allReduceTail(int32_t site, GlooContext &context, const char *send,
                                    char *recv, int64_t count, ShaleType type) {
  int64_t element = sizeOf(static_cast<Dtype>(type));
  int size = context->size;
  char *padded = tail.data(), *result = padded + size * 8;
  std::memset(padded, 0, size * element);
  std::memcpy(padded, send, count * element);
  parts.assign(1, {site, padded, result + context->rank * element, 1});
  reduceScatter(context, type);
  wholes.assign(1, {site, result, element});
  allGatherInPlace(context);
  std::memcpy(recv, result, count * element);
}
} // namespace

std::unique_ptr<Collectives> makeGlooCollectives(const ShaleProgram &program,
                                                 std::vector<GlooContext> perAxis,
                                                 milliseconds timeout) {
  return std::make_unique<GlooCollectives>(program, std::move(perAxis), timeout);
}

} // namespace shale::rt
