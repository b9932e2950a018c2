// Messages between ranks, over one connection per pair of neighbours (Join.h).
//
// A message has a channel (a group of ranks) and a slot, and goes directly from the sender's memory
// into the receiver's: the receiver announces the slot and size that it has room for, and only then
// the sender sends. So nothing that another rank sends makes this one allocate memory. Messages are
// written by the thread that sends them as far as the kernel takes them; the rest, and all that
// arrives, is done by one thread.
//
// All ranks fail together: the first one that notices that a rank has ended or does not answer
// tells its neighbours, of which rank 0 tells all, so that each names that rank, and not the one
// that it happened to wait for.
#ifndef SHALE_RUNTIME_COMM_MESH_MESH_H
#define SHALE_RUNTIME_COMM_MESH_MESH_H

#include "runtime/comm/mesh/Join.h"
#include "runtime/comm/mesh/Messages.h"
#include "runtime/comm/mesh/OpenWaits.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace shale::rt {

class Neighbours;
struct Frame;
struct Peer;

/// Sends and receives the messages of one rank, and ends its waits when the run fails.
class Mesh {
public:
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

  struct Options {
    /// The longest wait for another rank; decides how often ranks that wait ask others whether they
    /// are alive.
    milliseconds timeout{300000};
    /// How long after the failure of another rank this one ends, if no wait() reports the failure
    /// in that time, because the rank computes. 0: it does not end by itself.
    milliseconds grace{2000};
  };

  Mesh(int rank, std::vector<Link> links, Options options);
  /// Ends the connections. Nothing may be in flight or waiting.
  ~Mesh();
  Mesh(const Mesh &) = delete;

  int rank() const { return self; }
  /// "rank 2 (host node1, pid 4711)".
  std::string nameOf(int rank) const;

  /// Begin to send or receive `bytes`; `data` and `transfers` must live until the transfer is
  /// complete or forgotten. Failure is reported by wait().
  void send(int to, uint32_t channel, uint64_t slot, const void *data, size_t bytes,
            Awaited &transfers);
  void receive(int from, uint32_t channel, uint64_t slot, void *data, size_t bytes,
               Awaited &transfers);
  /// Waits until one more transfer is complete, and returns the other rank; -1 if the wait was
  /// aborted. If a rank fails or the time runs out, tells all ranks and throws with exit code 76.
  /// In a StorageWait, only a failure ends the wait.
  int wait(Awaited &transfers, bool sent, milliseconds timeout);
  /// Ends the transfers of a buffer that are not complete. If one of them is under way, the
  /// connection ends, too.
  void forget(Awaited &transfers);

  /// Tells all ranks that this one ends in order.
  void leave();
  /// See Peers::findSilent.
  std::vector<int> findSilent(const std::vector<int> &ranks, double seconds);

private:
  // MeshLoop.cpp: what the thread does.
  void loop();
  void tick();
  void handleInput(Peer &peer);
  std::string handle(Peer &peer, const Frame &frame, std::string_view text);
  void lose(Peer &peer, int error);

  void fail(const std::string &text, bool attributed = false);
  void refuse(Peer &peer, const std::string &what);

  const int self;
  const Options options;
  const milliseconds interval; // between two looks after the ranks
  Socket epoll, wake;          // data of events: the rank, this one for `wake`
  std::unique_ptr<Neighbours> neighbours;
  OpenWaits waits;
  std::atomic<bool> ending{false}, leaving{false};
  std::thread thread;
};

} // namespace shale::rt

#endif
