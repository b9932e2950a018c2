// The ranks that this one is connected with.
#include "runtime/comm/mesh/Neighbours.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <ctime>
#include <poll.h>
#include <utility>

namespace shale::rt {

/// Returns "rank 2 (..), rank 3 (..)", with at most four ranks " and 2 more".
static std::string listOf(const std::vector<const Peer *> &ranks) {
  std::string list;
  for (size_t i = 0; i < ranks.size() && i < 4; ++i)
    list += (i ? ", " : "") + ranks[i]->name;
  if (ranks.size() > 4)
    list += format(" and %zu more", ranks.size() - 4);
  return list;
}

Neighbours::Neighbours(int self, std::vector<Link> links, milliseconds interval, int epoll)
    : self(self), interval(interval), byRank(links.size()), looked(nowMilliseconds()) {
  for (size_t r = 0; r < links.size(); ++r) {
    names.push_back(
        format("rank %zu (host %s, pid %lld)", r, links[r].host.c_str(), (long long)links[r].pid));
    if (!links[r].socket)
      continue;
    peers.push_back(std::make_unique<Peer>(static_cast<int>(r), names.back(),
                                           std::move(links[r].socket), epoll));
    byRank[r] = peers.back().get();
  }
}

Peer &Neighbours::at(int rank) {
  if (rank < 0 || rank >= static_cast<int>(byRank.size()) || !byRank[rank])
    fail(SHALE_EXIT_INTERNAL, "a message to or from rank %d, with which this one is not connected",
         rank);
  return *byRank[rank];
}

void Neighbours::tellAll(uint32_t kind, const std::string &text, uint64_t slot) {
  for (auto &peer : peers)
    if (!peer->closed)
      peer->outbox.control({kind, 0, slot, text.size()}, text);
  using Clock = std::chrono::steady_clock;
  auto deadline = Clock::now() + milliseconds(200);
  for (auto &peer : peers) {
    for (;;) {
      auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now()).count();
      if (peer->closed || left <= 0 || peer->outbox.flushControl())
        break;
      pollfd one{peer->socket.get(), POLLOUT, 0};
      poll(&one, 1, static_cast<int>(left));
    }
  }
}

std::vector<Peer *> Neighbours::lookAfter(bool ask) {
  // While this process is stopped, it does not see what others acknowledge.
  bool wasStopped = nowMilliseconds() - looked > 3000 + interval.count();
  looked = nowMilliseconds();
  std::vector<Peer *> gone;
  for (auto &peer : peers) {
    if (peer->closed)
      continue;
    if (wasStopped)
      peer->acknowledged = looked;
    if (ask)
      peer->outbox.control({Ping, 0, 0, 0});
    if (peer->isUnreachable())
      gone.push_back(peer.get());
  }
  return gone;
}

/// Returns since when a rank must have been heard in a wait of `timeout`, in ms of the clock.
int64_t Neighbours::heardSince(milliseconds timeout) const {
  return nowMilliseconds() - std::max(timeout / 2, 2 * interval).count();
}

bool Neighbours::someoneIsSilent(int64_t since) const {
  return std::any_of(peers.begin(), peers.end(), [&](const auto &peer) {
    return !peer->closed && peer->inbox.heard() < since;
  });
}

bool Neighbours::allAnswer(milliseconds timeout) const {
  int64_t since = heardSince(timeout);
  return looked < since || !someoneIsSilent(since);
}

bool Neighbours::knowsCause(milliseconds timeout) const {
  int64_t since = heardSince(timeout);
  return peers.size() + 1 == byRank.size() || looked < since || someoneIsSilent(since);
}

std::string Neighbours::diagnose(milliseconds timeout) const {
  double seconds = timeout.count() / 1000.0;
  int64_t now = nowMilliseconds(), since = heardSince(timeout);
  if (looked < std::min(since, now - 3000))
    return format("%s did not run for %.1f s: it was stopped", names[self].c_str(),
                  (now - looked) / 1000.0);
  std::vector<const Peer *> silent, busy, needed;
  for (auto &peer : peers) {
    if (peer->closed)
      continue;
    if (peer->inbox.heard() < since)
      silent.push_back(peer.get());
    else if (!peer->waits)
      busy.push_back(peer.get());
    if (peer->isNeeded())
      needed.push_back(peer.get());
  }
  const auto &guilty = !silent.empty() ? silent : !busy.empty() ? busy : needed;
  std::string list = listOf(guilty);
  if (!silent.empty())
    return format("%s did not answer within %.1f s: stopped, or cut off from the network",
                  list.c_str(), seconds);
  return format("%s did not come to this point within %.1f s, but still run%s", list.c_str(),
                seconds, guilty.size() == 1 ? "s" : "");
}

void Neighbours::tellStorage(const OpenWaits::Wait &wait) const {
  std::vector<const Peer *> slow;
  for (auto &peer : peers)
    if ((self == 0 || (self == 1 && peer->rank == 0)) && !peer->patient &&
        peer->isNeeded(wait.transfers))
      slow.push_back(peer.get());
  if (slow.empty())
    return;
  auto lasted = std::chrono::steady_clock::now() - wait.since;
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(lasted);
  time_t since = std::time(nullptr) - seconds.count();
  tm parts{};
  localtime_r(&since, &parts);
  warn("%s waits for the storage of %s since %02d:%02d:%02d, for %lld s; the run goes on when it "
       "answers",
       wait.work->c_str(), listOf(slow).c_str(), parts.tm_hour, parts.tm_min, parts.tm_sec,
       (long long)seconds.count());
}

} // namespace shale::rt
