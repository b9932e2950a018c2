// The ranks that this one is connected with. Only the mesh includes this.
#ifndef SHALE_RUNTIME_COMM_MESH_NEIGHBOURS_H
#define SHALE_RUNTIME_COMM_MESH_NEIGHBOURS_H

#include "runtime/comm/mesh/Join.h"
#include "runtime/comm/mesh/OpenWaits.h"
#include "runtime/comm/mesh/Peer.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace shale::rt {

/// The connections of a rank, and what it knows about which of the others are alive.
class Neighbours {
public:
  using milliseconds = std::chrono::milliseconds;

  /// `interval`: how often lookAfter() is called. See Outbox about `epoll`.
  Neighbours(int self, std::vector<Link> links, milliseconds interval, int epoll);

  /// All neighbours, by rank.
  const std::vector<std::unique_ptr<Peer>> &all() const { return peers; }
  /// Throws with exit code 70 if this rank is not connected with the other one.
  Peer &at(int rank);
  /// Null if there is no connection.
  Peer *find(int rank) { return byRank[rank]; }
  /// "rank 2 (host node1, pid 4711)", of any rank.
  const std::string &nameOf(int rank) const { return names[rank]; }

  /// Sends a frame to all, and waits a moment until it is written.
  void tellAll(uint32_t kind, const std::string &text, uint64_t slot = 0);
  /// Asks all whether they are alive, if `ask`. Returns those whose hosts are gone.
  std::vector<Peer *> lookAfter(bool ask);

  // ---- about a wait that has lasted for `timeout`
  /// Whether all neighbours are alive. After this process was stopped, it has to ask again.
  bool allAnswer(milliseconds timeout) const;
  /// Whether this rank can tell what the wait has run out for: it was stopped, or a neighbour does
  /// not answer, or all ranks are neighbours.
  bool knowsCause(milliseconds timeout) const;
  /// Returns which ranks the wait has run out for. A rank that is alive answers pings, also while
  /// it computes; a rank that waits itself is not the cause.
  std::string diagnose(milliseconds timeout) const;
  /// Warns of the ranks for whose storage the wait lasts: those that do not wait for others
  /// themselves. Rank 0 does it, with which all exchange, and rank 1 for rank 0.
  void tellStorage(const OpenWaits::Wait &wait) const;

private:
  int64_t heardSince(milliseconds timeout) const;
  bool someoneIsSilent(int64_t since) const;

  const int self;
  const milliseconds interval;
  std::vector<std::unique_ptr<Peer>> peers;
  std::vector<Peer *> byRank;     // null for this one and where there is no connection
  std::vector<std::string> names; // by rank
  std::atomic<int64_t> looked;    // when lookAfter() was called last, in ms of the clock
};

} // namespace shale::rt

#endif
