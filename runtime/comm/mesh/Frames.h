// The frames that ranks send over their connections.
#ifndef SHALE_RUNTIME_COMM_MESH_FRAMES_H
#define SHALE_RUNTIME_COMM_MESH_FRAMES_H

#include <cstddef>
#include <cstdint>

namespace shale::rt {

enum FrameKind : uint32_t {
  Ready = 1,   // there is room for `bytes` at a slot
  Data = 2,    // `bytes` for a slot, which follow
  Ping = 3,    // asks for a pong
  Pong = 4,    // slot: kWaits and kPatient, if the rank waits for others
  Failure = 5, // a text of `bytes`, which follows: the run has failed. slot: kAttributed or 0
  Leave = 6,   // the rank ends in order
  Stuck = 7    // see Peers::findSilent
};

/// The header that precedes the bytes of a message or text.
struct Frame {
  uint32_t kind, channel;
  uint64_t slot, bytes;
};
static_assert(sizeof(Frame) == 24, "frames have no padding");

constexpr uint64_t kWaits = 1, kPatient = 2; // in waits that --comm-timeout ends, or StorageWait's
constexpr uint64_t kAttributed = 1;          // the text names the rank that found the failure
constexpr size_t longestText = 1000;

/// Identifies a message and the buffer that receives it.
struct MessageKey {
  uint32_t channel;
  uint64_t slot;

  explicit MessageKey(const Frame &frame) : channel(frame.channel), slot(frame.slot) {}
  bool operator<(const MessageKey &other) const {
    return channel != other.channel ? channel < other.channel : slot < other.slot;
  }
};

/// Returns the first of the elements with a key, which were added in order; end() if there is none.
template <typename Map>
typename Map::iterator firstOf(Map &map, const typename Map::key_type &key) {
  auto it = map.lower_bound(key);
  return it != map.end() && !(key < it->first) ? it : map.end();
}

} // namespace shale::rt

#endif
