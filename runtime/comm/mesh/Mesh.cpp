// Messages between ranks: what other threads call, and failure.
#include "runtime/comm/mesh/Mesh.h"
#include "runtime/comm/mesh/Peer.h"
#include "runtime/core/Error.h"
#include "runtime/core/StorageWait.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <new>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace shale::rt {

namespace {
/// A pool for all threads. The pools of the library that do this have one per thread, which grow
/// when one thread frees what another one allocates.
class MessageMemory final : public std::pmr::memory_resource {
public:
  /// Takes blocks of the sizes of nodes and buffers, so that a step in which more messages wait
  /// than in those before finds them.
  MessageMemory() {
    constexpr size_t sizes[] = {8, 16, 64, 80, 96, 320, 512};
    constexpr int count = 8;
    for (size_t bytes : sizes) {
      void *blocks[count];
      for (void *&block : blocks)
        block = pool.allocate(bytes);
      for (void *block : blocks)
        pool.deallocate(block, bytes);
    }
  }

private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    std::lock_guard<std::mutex> lock(mutex);
    return pool.allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    std::lock_guard<std::mutex> lock(mutex);
    pool.deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
  std::mutex mutex;
  std::pmr::unsynchronized_pool_resource pool;
};
} // namespace

std::pmr::memory_resource *messageMemory() {
  static auto *const memory = new MessageMemory; // never destroyed: threads use it to the end
  return memory;
}

Mesh::Mesh(int rank, std::vector<Link> links, Options options)
    : self(rank), options(options), epoll(epoll_create1(EPOLL_CLOEXEC)),
      wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  auto watch = [&](int fd, Peer *peer) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = peer;
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      shale::rt::fail(SHALE_EXIT_INTERNAL, "cannot wait for ranks: %s", strerror(errno));
  };
  watch(wake.get(), nullptr);
  ticked = nowMilliseconds();
  for (size_t r = 0; r < links.size(); ++r) {
    names.push_back(
        format("rank %zu (host %s, pid %lld)", r, links[r].host.c_str(), (long long)links[r].pid));
    peers.push_back(nullptr);
    if (!links[r].socket) {
      all = all && static_cast<int>(r) == self;
      continue;
    }
    peers.back() = std::make_unique<Peer>();
    Peer &peer = *peers.back();
    peer.rank = static_cast<int>(r);
    peer.name = names.back();
    peer.socket = std::move(links[r].socket);
    peer.heard = peer.acknowledged = nowMilliseconds();
    fcntl(peer.socket.get(), F_SETFL, fcntl(peer.socket.get(), F_GETFL) | O_NONBLOCK);
    watch(peer.socket.get(), &peer);
  }
  thread = std::thread([this] { loop(); });
}

Mesh::~Mesh() {
  ending = true;
  uint64_t one = 1;
  if (write(wake.get(), &one, sizeof(one)) < 0) {
    // The counter is not 0, so the thread wakes up anyway.
  }
  thread.join();
}

std::string Mesh::nameOf(int rank) const { return names[rank]; }

Mesh::Peer &Mesh::at(int rank) {
  if (rank < 0 || rank >= static_cast<int>(peers.size()) || !peers[rank])
    shale::rt::fail(SHALE_EXIT_INTERNAL,
                    "a message to or from rank %d, with which this one is not connected", rank);
  return *peers[rank];
}

Mesh::milliseconds Mesh::interval() const {
  return std::clamp(options.timeout / 8, milliseconds(10), milliseconds(1000));
}

void Mesh::send(int to, uint32_t channel, uint64_t slot, const void *data, size_t bytes,
                Awaited &transfers) {
  Peer &peer = at(to);
  Key key{channel, slot};
  Outgoing message{{Data, channel, slot, bytes}, static_cast<const char *>(data), &transfers};
  {
    std::lock_guard<std::mutex> lock(transfers.mutex);
    ++transfers.pending;
  }
  std::unique_lock<std::mutex> lock(peer.sendMutex);
  auto room = firstOf(peer.ready, key);
  if (room == peer.ready.end()) {
    peer.unready.emplace(key, message);
  } else if (room->second == bytes) {
    peer.ready.erase(room);
    peer.queue.push_back(message);
    flush(peer);
  } else {
    uint64_t expected = room->second;
    peer.unready.emplace(key, message); // for forget()
    lock.unlock();
    refuse(peer, format("expects a message of %llu bytes, where this rank sends %zu",
                        (unsigned long long)expected, bytes));
    return;
  }
  lock.unlock();
  if (peer.closed)
    lose(peer, 0);
}

void Mesh::receive(int from, uint32_t channel, uint64_t slot, void *data, size_t bytes,
                   Awaited &transfers) {
  Peer &peer = at(from);
  {
    std::lock_guard<std::mutex> lock(transfers.mutex);
    ++transfers.pending;
  }
  {
    std::lock_guard<std::mutex> lock(peer.postMutex);
    peer.posted.emplace(Key{channel, slot}, Incoming{static_cast<char *>(data), bytes, &transfers});
  }
  control(peer, {Ready, channel, slot, bytes});
  if (peer.closed)
    lose(peer, 0);
}

int Mesh::wait(Awaited &transfers, bool sent, milliseconds timeout) {
  std::pmr::vector<int> &done = sent ? transfers.sent : transfers.received;
  auto take = [&] {
    int rank = done.front();
    done.erase(done.begin());
    return rank;
  };
  if (std::lock_guard<std::mutex> lock(transfers.mutex); !done.empty())
    return take();
  Waiting own{&transfers, Clock::now(), StorageWait::ofThread()};
  struct Registered {
    Mesh &mesh;
    Waiting &own;
    Registered(Mesh &mesh, Waiting &own) : mesh(mesh), own(own) {
      std::lock_guard<std::mutex> lock(mesh.stateMutex);
      mesh.waits.push_back(&own);
    }
    ~Registered() {
      std::lock_guard<std::mutex> lock(mesh.stateMutex);
      mesh.waits.erase(std::find(mesh.waits.begin(), mesh.waits.end(), &own));
    }
  } registered(*this, own);
  for (auto from = own.since;; from = Clock::now()) {
    {
      std::unique_lock<std::mutex> lock(transfers.mutex);
      transfers.changed.wait_until(lock, from + timeout,
                                   [&] { return !done.empty() || transfers.aborted || failed; });
      if (!done.empty())
        return take();
      if (transfers.aborted) {
        transfers.aborted = false;
        return -1;
      }
    }
    if (failed || !own.work || !othersAnswer(timeout))
      break;
    tellStorage(own);
  }
  if (!failed && (knowsCause(timeout) || !hearsOfFailure(timeout)))
    fail(diagnose(timeout));
  std::unique_lock<std::mutex> lock(stateMutex);
  stateChanged.wait(lock, [&] { return failed.load(); }); // another thread is telling the others
  reported = true;
  throw Error(SHALE_EXIT_PEER, failure);
}

void Mesh::forget(Awaited &transfers) {
  {
    std::lock_guard<std::mutex> lock(transfers.mutex);
    if (transfers.pending == 0)
      return;
  }
  auto isOwn = [&](const auto &one) { return one.transfers == &transfers; };
  auto eraseOwn = [&](auto &map) {
    for (auto it = map.begin(); it != map.end();)
      it = isOwn(it->second) ? map.erase(it) : std::next(it);
  };
  for (auto &one : peers) {
    if (!one)
      continue;
    Peer &peer = *one;
    std::lock_guard<std::mutex> receiving(peer.receiveMutex);
    bool cut = peer.inData && isOwn(peer.current);
    {
      std::lock_guard<std::mutex> lock(peer.postMutex);
      eraseOwn(peer.posted);
    }
    std::lock_guard<std::mutex> sending(peer.sendMutex);
    eraseOwn(peer.unready);
    cut = cut || (peer.frontAt > 0 && isOwn(peer.queue.front()));
    if (cut) { // the rest of the message will not come, so no other can follow
      peer.inData = false;
      peer.broken = true;
      peer.queue.clear();
      peer.frontAt = 0;
      shutdown(peer.socket.get(), SHUT_RDWR);
    }
    peer.queue.erase(std::remove_if(peer.queue.begin(), peer.queue.end(), isOwn), peer.queue.end());
  }
}

/// Returns kWaits and kPatient, if there are such waits.
uint64_t Mesh::waitsNow() {
  std::lock_guard<std::mutex> lock(stateMutex);
  auto before = Clock::now() - interval();
  uint64_t found = 0;
  for (const Waiting *one : waits)
    if (one->since < before)
      found |= one->work ? kPatient : kWaits;
  return found;
}

/// Whether a transfer of one buffer with the rank is not complete.
bool Mesh::isNeeded(Peer &peer, const Awaited &transfers) {
  auto isOf = [&](const auto &entry) { return entry.second.transfers == &transfers; };
  {
    std::lock_guard<std::mutex> lock(peer.postMutex);
    if (std::any_of(peer.posted.begin(), peer.posted.end(), isOf))
      return true;
  }
  std::lock_guard<std::mutex> lock(peer.sendMutex);
  return std::any_of(peer.unready.begin(), peer.unready.end(), isOf);
}

/// Whether a transfer with the rank is not complete.
bool Mesh::isNeeded(Peer &peer) {
  {
    std::lock_guard<std::mutex> lock(peer.postMutex);
    if (!peer.posted.empty())
      return true;
  }
  std::lock_guard<std::mutex> lock(peer.sendMutex);
  return !peer.unready.empty() || !peer.queue.empty();
}

/// Returns since when a rank must have been heard in a wait of `timeout`, in ms of the clock.
static int64_t heardSince(Mesh::milliseconds timeout, Mesh::milliseconds interval) {
  return nowMilliseconds() - std::max(timeout / 2, 2 * interval).count();
}

/// Whether this rank can tell what a wait has run out for: it was stopped, or a neighbour does not
/// answer, or all ranks are neighbours.
bool Mesh::knowsCause(milliseconds timeout) const {
  int64_t since = heardSince(timeout, interval());
  return all || ticked < since ||
         std::any_of(
             peers.begin(), peers.end(),
             [&](auto &peer) { return peer && !peer->closed && peer->heard < since; });
}

/// Whether all neighbours are alive. After this process was stopped, it has to ask again.
bool Mesh::othersAnswer(milliseconds timeout) const {
  int64_t since = heardSince(timeout, interval());
  return ticked < since ||
         std::none_of(
             peers.begin(), peers.end(),
             [&](auto &peer) { return peer && !peer->closed && peer->heard < since; });
}

/// Warns of the ranks for whose storage a wait lasts: those that do not wait for others themselves.
/// Rank 0 does it, with which all exchange, and rank 1 for rank 0.
void Mesh::tellStorage(const Waiting &wait) {
  std::string list;
  int count = 0;
  for (auto &peer : peers)
    if (peer && (self == 0 || (self == 1 && peer->rank == 0)) && !peer->patient &&
        isNeeded(*peer, *wait.transfers) && ++count <= 4)
      list += (list.empty() ? "" : ", ") + peer->name;
  if (count == 0)
    return;
  if (count > 4)
    list += format(" and %d more", count - 4);
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - wait.since);
  time_t since = std::time(nullptr) - seconds.count();
  tm parts{};
  localtime_r(&since, &parts);
  warn("%s waits for the storage of %s since %02d:%02d:%02d, for %lld s; the run goes on when it "
       "answers",
       wait.work->c_str(), list.c_str(), parts.tm_hour, parts.tm_min, parts.tm_sec,
       (long long)seconds.count());
}

/// A rank that does not answer may be a neighbour of others, which report it when their waits have
/// run out. Returns whether they do, in `most`.
bool Mesh::hearsOfFailure(milliseconds most) {
  std::unique_lock<std::mutex> lock(stateMutex);
  return stateChanged.wait_for(lock, most, [&] { return failed.load(); });
}

/// Returns which ranks a wait has run out for. A rank that is alive answers pings, also while it
/// computes; a rank that waits itself is not the cause.
std::string Mesh::diagnose(milliseconds timeout) {
  double seconds = timeout.count() / 1000.0;
  int64_t now = nowMilliseconds(), since = heardSince(timeout, interval());
  if (ticked < std::min(since, now - 3000))
    return format("%s did not run for %.1f s: it was stopped", names[self].c_str(),
                  (now - ticked) / 1000.0);
  std::vector<const Peer *> silent, busy, needed;
  for (auto &peer : peers) {
    if (!peer || peer->closed)
      continue;
    if (peer->heard < since)
      silent.push_back(peer.get());
    else if (!peer->waits)
      busy.push_back(peer.get());
    if (isNeeded(*peer))
      needed.push_back(peer.get());
  }
  const auto &guilty = !silent.empty() ? silent : !busy.empty() ? busy : needed;
  std::string list;
  for (size_t i = 0; i < guilty.size() && i < 4; ++i)
    list += (i ? ", " : "") + guilty[i]->name;
  if (guilty.size() > 4)
    list += format(" and %zu more", guilty.size() - 4);
  if (!silent.empty())
    return format("%s did not answer within %.1f s: stopped, or cut off from the network",
                  list.c_str(), seconds);
  return format("%s did not come to this point within %.1f s, but still run%s", list.c_str(),
                seconds, guilty.size() == 1 ? "s" : "");
}

/// Sends a frame to all ranks, and waits a moment until it is written.
void Mesh::tellAll(uint32_t kind, const std::string &text) {
  for (auto &peer : peers)
    if (peer && !peer->closed)
      control(*peer, {kind, 0, 0, text.size()}, text);
  auto deadline = Clock::now() + milliseconds(200);
  for (auto &peer : peers) {
    for (;;) {
      auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
      if (!peer || peer->closed || left <= 0)
        break;
      {
        std::lock_guard<std::mutex> lock(peer->sendMutex);
        flush(*peer);
        if (peer->control.empty() || peer->broken)
          break;
      }
      pollfd one{peer->socket.get(), POLLOUT, 0};
      poll(&one, 1, static_cast<int>(left));
    }
  }
}

/// The run has failed: tells all ranks why, and ends the waits of this one. The first reason
/// counts.
void Mesh::fail(const std::string &text) {
  if (failing.exchange(true))
    return;
  std::string reason;
  try {
    // Before a wait ends, and with it perhaps the process.
    tellAll(Failure, text.substr(0, longestText));
    reason = text;
  } catch (const std::bad_alloc &) {
    // The waits below must end, also without memory for the text.
    reason = "out of memory";
  }
  std::lock_guard<std::mutex> lock(stateMutex);
  failure = std::move(reason);
  failedAt = Clock::now();
  failed = true;
  for (Waiting *one : waits) {
    std::lock_guard<std::mutex> inner(one->transfers->mutex);
    one->transfers->changed.notify_all();
  }
  stateChanged.notify_all();
}

/// An authenticated rank does what no rank of this program does.
void Mesh::refuse(Peer &peer, const std::string &what) {
  fail(format("%s %s: the ranks run different programs or flags", peer.name.c_str(), what.c_str()));
  shutdown(peer.socket.get(), SHUT_RDWR);
}

void Mesh::leave() {
  leaving = true;
  tellAll(Leave, "");
}

std::vector<int> Mesh::findSilent(const std::vector<int> &ranks, double seconds) {
  for (int rank : ranks)
    control(at(rank), {Stuck, 0, 0, 0});
  auto answered = [&](int rank) { return at(rank).stuck.load(); };
  std::unique_lock<std::mutex> lock(stateMutex);
  stateChanged.wait_for(lock, std::chrono::duration<double>(seconds), [&] {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return answered(rank) || at(rank).closed; });
  });
  std::vector<int> silent;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(silent),
               [&](int rank) { return !answered(rank); });
  return silent;
}

} // namespace shale::rt
