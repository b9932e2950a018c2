// How the ranks of an emulated NCCL communicator exchange data: memory that their processes share.
//
// One object holds the state of all ranks. Each rank has a second object for its data, the outbox,
// which grows. Posting a message copies it to the outbox; peers read it there.
#ifndef SHALE_TEST_EMULATION_NCCLSHARED_H
#define SHALE_TEST_EMULATION_NCCLSHARED_H

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shale::stub {

constexpr int kMaxRanks = 64;
/// Messages of a sender that may wait for their readers.
constexpr uint64_t kSlots = 8;

/// A call of one rank, with the place of its data.
struct Message {
  int32_t kind, type, op, root, registered;
  uint64_t count;         ///< elements, as the caller states them
  uint64_t offset, bytes; ///< in the sender's outbox
};

struct SharedState;

/// One rank's end of a communicator's shared memory. Functions throw std::runtime_error if the
/// system has no more memory.
class Link {
public:
  /// Opens or makes the objects of that name. `error` says what the caller got wrong.
  static std::unique_ptr<Link> open(const std::string &name, int ranks, int rank,
                                    std::string &error);
  ~Link();
  Link(const Link &) = delete;

  /// Goes on with connecting to the peers. Whether all are connected.
  bool connect();

  const int ranks, rank;
  const std::string name;

  // ---- collectives, numbered from 0
  /// Whether all have read what was in the slot of the next collective.
  bool canPost() const;
  /// Posts the next collective and returns its number. `data` may be null if `bytes` is 0.
  uint64_t post(Message message, const char *data);
  bool allPosted(uint64_t number) const;
  const Message &posted(int rank, uint64_t number) const;
  void finish(uint64_t number);

  // ---- messages of pairs of ranks, numbered from 0
  bool canSend(int to) const;
  uint64_t send(int to, Message message, const char *data);
  bool wasReceived(int to, uint64_t number) const;
  bool canReceive(int from) const;
  const Message &receive(int from) const; ///< the next message
  void finishReceive(int from);

  /// The data of a message from the outbox of a rank.
  const char *data(int rank, const Message &message);

  // ---- values of all ranks, exchanged by the host
  struct Color {
    int32_t color, key;
  };
  /// Whether all have read what was in the slot of that number.
  bool canOffer(uint64_t number) const;
  void offer(uint64_t number, Color color);
  /// The colors of all ranks, or nothing if some have not offered theirs.
  std::vector<Color> colors(uint64_t number);

private:
  Link(const std::string &name, int ranks, int rank) : ranks(ranks), rank(rank), name(name) {}

  /// A file that is mapped.
  struct Mapping {
    int file = -1;
    char *memory = nullptr;
    uint64_t bytes = 0;
    void grow(uint64_t size);
  };
  /// A part of the own outbox.
  struct Region {
    uint64_t offset, bytes;
    int to; ///< reader; -1: all
    uint64_t number;
  };
  std::string outboxName(int rank) const { return name + "." + std::to_string(rank); }
  bool isRead(const Region &region) const;
  uint64_t place(uint64_t bytes, int to, uint64_t number, const char *data);

  SharedState *state = nullptr;
  std::vector<Mapping> outboxes;
  std::vector<Region> regions; ///< by offset
  bool opened = false, connected = false;
};

/// Makes an object of zeros with a new name. It is removed when all ranks have connected or this
/// process exits. Empty if the system has none.
std::string makeSharedName();

} // namespace shale::stub

#endif
