// A connection with another rank. Only the mesh includes this.
#ifndef SHALE_RUNTIME_COMM_MESH_PEER_H
#define SHALE_RUNTIME_COMM_MESH_PEER_H

#include "runtime/comm/mesh/Endpoint.h"
#include "runtime/comm/mesh/Inbox.h"
#include "runtime/comm/mesh/Outbox.h"

#include <atomic>
#include <string>

namespace shale::rt {

/// Another rank: what goes to it and comes from it, and what it has said about itself. Locks are
/// taken in the order Inbox::lock(), others of Inbox or Outbox, Awaited::mutex.
struct Peer {
  /// See Outbox about `epoll`.
  Peer(int rank, std::string name, Socket taken, int epoll);

  /// Whether a transfer with the rank is not complete.
  bool isNeeded() { return inbox.expects() || outbox.hasMessages(); }
  /// Whether a transfer of one buffer with the rank has not begun.
  bool isNeeded(const Awaited &transfers) {
    return inbox.expects(transfers) || outbox.lacksRoom(transfers);
  }
  /// Whether the host of the rank has not acknowledged for 6.5 seconds what was sent to it, in
  /// which TCP has sent it several times. The host of a rank that is stopped does acknowledge.
  bool isUnreachable();

  const int rank;
  const std::string name;
  const Socket socket;
  Outbox outbox;
  Inbox inbox;

  int64_t acknowledged;            // when the host last acknowledged all, or anything; of the loop
  std::atomic<bool> closed{false}; // nothing arrives any more
  std::atomic<bool> left{false}, waits{false}, patient{false}, stuck{false};
};

} // namespace shale::rt

#endif
