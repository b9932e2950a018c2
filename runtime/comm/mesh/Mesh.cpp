// Messages between ranks: what other threads call, and failure.
#include "runtime/comm/mesh/Mesh.h"
#include "runtime/comm/mesh/Neighbours.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace shale::rt {

Mesh::Mesh(int rank, std::vector<Link> links, Options options)
    : self(rank), options(options),
      interval(std::clamp(options.timeout / 8, milliseconds(10), milliseconds(1000))),
      epoll(epoll_create1(EPOLL_CLOEXEC)), wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      neighbours(std::make_unique<Neighbours>(rank, std::move(links), interval, epoll.get())) {
  auto watch = [&](int fd, int rank) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = static_cast<uint32_t>(rank);
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
      shale::rt::fail(SHALE_EXIT_INTERNAL, "cannot wait for ranks: %s", strerror(errno));
  };
  watch(wake.get(), self);
  for (auto &peer : neighbours->all())
    watch(peer->socket.get(), peer->rank);
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

std::string Mesh::nameOf(int rank) const { return neighbours->nameOf(rank); }

void Mesh::send(int to, uint32_t channel, uint64_t slot, const void *data, size_t bytes,
                Awaited &transfers) {
  Peer &peer = neighbours->at(to);
  transfers.begin();
  std::string misfit =
      peer.outbox.send({{Data, channel, slot, bytes}, static_cast<const char *>(data), &transfers});
  if (!misfit.empty())
    refuse(peer, misfit);
  else if (peer.closed)
    lose(peer, 0);
}

void Mesh::receive(int from, uint32_t channel, uint64_t slot, void *data, size_t bytes,
                   Awaited &transfers) {
  Peer &peer = neighbours->at(from);
  Frame frame{Ready, channel, slot, bytes};
  transfers.begin();
  peer.inbox.post(MessageKey(frame), {static_cast<char *>(data), bytes, &transfers});
  peer.outbox.control(frame);
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
  OpenWaits::Wait own(waits, transfers);
  for (auto from = own.since;; from = Clock::now()) {
    {
      std::unique_lock<std::mutex> lock(transfers.mutex);
      transfers.changed.wait_until(lock, from + timeout, [&] {
        return !done.empty() || transfers.aborted || waits.failed();
      });
      if (!done.empty())
        return take();
      if (transfers.aborted) {
        transfers.aborted = false;
        return -1;
      }
    }
    if (waits.failed() || !own.work || !neighbours->allAnswer(timeout))
      break;
    neighbours->tellStorage(own);
  }
  // A rank that does not answer may be a neighbour of others, which report it when their waits have
  // run out.
  auto failed = [&] { return waits.failed(); };
  if (!failed() && (neighbours->knowsCause(timeout) || !waits.waitUntil(timeout, failed)))
    fail(neighbours->diagnose(timeout));
  waits.throwFailure();
}

void Mesh::forget(Awaited &transfers) {
  {
    std::lock_guard<std::mutex> lock(transfers.mutex);
    if (transfers.pending == 0)
      return;
  }
  for (auto &peer : neighbours->all()) {
    std::unique_lock<std::mutex> reading = peer->inbox.lock();
    bool cut = peer->inbox.forget(transfers);
    if (peer->outbox.forget(transfers, cut))
      peer->inbox.cut();
  }
}

/// The run has failed: tells all ranks why, and ends the waits of this one. The first reason
/// counts. `attributed`: it names the rank that found the failure.
void Mesh::fail(const std::string &text, bool attributed) {
  if (!waits.claimFailure())
    return;
  std::string reason;
  try {
    // Before a wait ends, and with it perhaps the process.
    neighbours->tellAll(Failure, text.substr(0, longestText), attributed ? kAttributed : 0);
    reason = text;
  } catch (const std::bad_alloc &) {
    // The waits below must end, also without memory for the text.
    reason = "out of memory";
  }
  waits.fail(std::move(reason));
}

/// An authenticated rank does what no rank of this program does.
void Mesh::refuse(Peer &peer, const std::string &what) {
  fail(format("%s %s: the ranks run different programs or flags", peer.name.c_str(), what.c_str()));
  shutdown(peer.socket.get(), SHUT_RDWR);
}

void Mesh::leave() {
  leaving = true;
  neighbours->tellAll(Leave, "");
}

std::vector<int> Mesh::findSilent(const std::vector<int> &ranks, double seconds) {
  for (int rank : ranks)
    neighbours->at(rank).outbox.control({Stuck, 0, 0, 0});
  auto answered = [&](int rank) { return neighbours->at(rank).stuck.load(); };
  waits.waitUntil(std::chrono::duration<double>(seconds), [&] {
    return std::all_of(ranks.begin(), ranks.end(),
                       [&](int rank) { return answered(rank) || neighbours->at(rank).closed; });
  });
  std::vector<int> silent;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(silent),
               [&](int rank) { return !answered(rank); });
  return silent;
}

} // namespace shale::rt
