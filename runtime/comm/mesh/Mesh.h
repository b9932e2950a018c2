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

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory_resource>
#include <mutex>
#include <thread>

namespace shale::rt {

/// Returns the memory of what describes messages. It is kept for the next ones, so that a step
/// allocates nothing.
std::pmr::memory_resource *messageMemory();

/// Who waits for the transfers of one buffer, and which of them are complete.
struct Awaited {
  std::mutex mutex;
  std::condition_variable changed;
  std::pmr::vector<int> sent{messageMemory()}, received{messageMemory()}; // ranks of complete
                                                                          // transfers that were not
                                                                          // waited for
  size_t pending = 0; // transfers that are not complete
  bool aborted = false;
};

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

  /// The header that precedes the bytes of a message or text.
  struct Frame {
    uint32_t kind, channel;
    uint64_t slot, bytes;
  };

private:
  struct Key {
    uint32_t channel;
    uint64_t slot;
    bool operator<(const Key &other) const {
      return channel != other.channel ? channel < other.channel : slot < other.slot;
    }
  };
  struct Outgoing {
    Frame frame;
    const char *data;
    Awaited *transfers;
  };
  struct Incoming {
    char *data;
    size_t bytes;
    Awaited *transfers;
  };
  struct Peer;
  struct Waiting; // a wait() in progress

  // MeshLoop.cpp: what the thread does.
  void loop();
  void tick();
  void handleInput(Peer &peer);
  bool parse(Peer &peer);
  bool handle(Peer &peer, const Frame &frame);
  bool takeReady(Peer &peer, const Frame &frame);
  bool takeData(Peer &peer, const Frame &frame);
  bool flush(Peer &peer);
  void control(Peer &peer, const Frame &frame, const std::string &text = "");
  void arm(Peer &peer, bool output);
  Peer &at(int rank);
  void lose(Peer &peer, int error);
  void fail(const std::string &text);
  void tellAll(uint32_t kind, const std::string &text);
  std::string diagnose(milliseconds timeout);
  bool knowsCause(milliseconds timeout) const;
  bool hearsOfFailure(milliseconds most);
  bool isNeeded(Peer &peer);
  bool isNeeded(Peer &peer, const Awaited &transfers);
  uint64_t waitsNow();
  bool othersAnswer(milliseconds timeout) const;
  void tellStorage(const Waiting &wait);
  void refuse(Peer &peer, const std::string &what);
  bool isUnreachable(Peer &peer);
  milliseconds interval() const;

  int self;
  Options options;
  std::vector<std::unique_ptr<Peer>> peers; // by rank; null for this one and where there is no
                                            // connection
  bool all = true;                          // whether this rank is connected with every other
  std::vector<std::string> names;           // by rank
  Socket epoll, wake;
  std::atomic<int64_t> ticked; // when the thread looked after the ranks last, in ms of the clock
  std::atomic<bool> ending{false}, leaving{false}, failing{false}, reported{false};

  std::mutex stateMutex; // of what follows
  std::condition_variable stateChanged;
  std::vector<Waiting *> waits;
  std::string failure; // "" as long as all is well
  Clock::time_point failedAt;
  std::atomic<bool> failed{false};
  std::thread thread;
};

} // namespace shale::rt

#endif
