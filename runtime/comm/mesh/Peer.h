// The state of a connection with another rank, and the frames on it. Only the mesh includes this.
#ifndef SHALE_RUNTIME_COMM_MESH_PEER_H
#define SHALE_RUNTIME_COMM_MESH_PEER_H

#include "runtime/comm/mesh/Mesh.h"

namespace shale::rt {

enum FrameKind : uint32_t {
  Ready = 1,   // there is room for `bytes` at a slot
  Data = 2,    // `bytes` for a slot, which follow
  Ping = 3,    // asks for a pong
  Pong = 4,    // slot: kWaits and kPatient, if the rank waits for others
  Failure = 5, // a text of `bytes`, which follows: the run has failed
  Leave = 6,   // the rank ends in order
  Stuck = 7    // see Peers::findSilent
};
static_assert(sizeof(Mesh::Frame) == 24, "frames have no padding");

constexpr uint64_t kWaits = 1, kPatient = 2; // in waits that --comm-timeout ends, or StorageWait's
constexpr size_t longestText = 1000;
// Announcements of one rank that nothing was sent for yet.
constexpr size_t mostReady = 1 << 20;

/// Locks are taken in the order receiveMutex, postMutex or sendMutex, Awaited::mutex.
struct Mesh::Peer {
  int rank = 0;
  Socket socket;
  std::string name;

  std::mutex sendMutex; // of what is sent
  std::string control;  // frames without data, which go before the next message
  size_t controlAt = 0; // bytes of them that are written
  std::pmr::deque<Outgoing> queue{messageMemory()};
  size_t frontAt = 0; // bytes of the first message that are written, with its frame
  bool armed = false; // whether the loop waits until more can be written
  bool broken = false;
  std::pmr::multimap<Key, Outgoing> unready{
      messageMemory()}; // sends that the other rank has announced no room for
  std::pmr::multimap<Key, uint64_t> ready{
      messageMemory()}; // room that nothing was sent to yet, in bytes

  std::mutex receiveMutex; // held while the loop reads
  char stage[4096];        // frames that have arrived, from `begin` to `end`
  size_t begin = 0, end = 0;
  Incoming current{}; // the message that is arriving, if `inData`
  size_t currentAt = 0;
  bool inData = false;

  std::mutex postMutex;
  std::pmr::multimap<Key, Incoming> posted{messageMemory()}; // room for messages

  int64_t acknowledged = 0;        // when the host last acknowledged all, or anything; of the loop
  std::atomic<int64_t> heard{0};   // when something arrived last, in ms of the clock
  std::atomic<bool> closed{false}; // nothing arrives any more
  std::atomic<bool> left{false}, waits{false}, patient{false}, stuck{false};
};

struct Mesh::Waiting {
  Awaited *transfers;
  Clock::time_point since;
  const std::string *work; // see StorageWait; null: --comm-timeout ends the wait
};

/// Returns the first of the elements with a key, which were added in order; end() if there is none.
template <typename Map>
typename Map::iterator firstOf(Map &map, const typename Map::key_type &key) {
  auto it = map.lower_bound(key);
  return it != map.end() && !(key < it->first) ? it : map.end();
}

/// Counts a transfer as complete.
inline void complete(Awaited &transfers, bool sent, int rank) {
  std::lock_guard<std::mutex> lock(transfers.mutex);
  (sent ? transfers.sent : transfers.received).push_back(rank);
  --transfers.pending;
  transfers.changed.notify_all(); // under the lock: the owner may end right after
}

inline int64_t nowMilliseconds() {
  return std::chrono::duration_cast<Mesh::milliseconds>(Mesh::Clock::now().time_since_epoch())
      .count();
}

} // namespace shale::rt

#endif
