#include "NcclShared.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace shale::stub;

/// The state of all ranks. Zeros are its first state.
struct shale::stub::SharedState {
  std::atomic<int32_t> ranks, connected;
  struct Rank {
    std::atomic<int32_t> present;
    std::atomic<uint64_t> posted, finished; // collectives
    Message slots[kSlots];
    std::atomic<uint64_t> offered, seen; // colors
    Link::Color colors[kSlots];
  } of[kMaxRanks];
  struct Pair {
    std::atomic<uint64_t> sent, received;
    Message slots[kSlots];
  } pairs[kMaxRanks][kMaxRanks]; // by sender and receiver
};

namespace {

/// Names that this process removes when it exits.
class Names {
public:
  static Names &get() {
    static Names names;
    return names;
  }
  void add(const std::string &name) {
    std::lock_guard<std::mutex> lock(mutex);
    all.insert({getpid(), name});
  }
  void remove(const std::string &name) {
    std::lock_guard<std::mutex> lock(mutex);
    shm_unlink(name.c_str());
    all.erase({getpid(), name});
  }
  ~Names() {
    for (auto &[process, name] : all)
      if (process == getpid()) // not the parent's
        shm_unlink(name.c_str());
  }

private:
  std::mutex mutex;
  std::set<std::pair<pid_t, std::string>> all;
};

void *map(int file, uint64_t bytes) {
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED)
    throw std::runtime_error("cannot map shared memory");
  return memory;
}

} // namespace

std::string shale::stub::makeSharedName() {
  std::random_device random;
  std::string name = "/shale-nccl-" + std::to_string(getpid()) + "-" + std::to_string(random());
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0)
    return "";
  close(file);
  Names::get().add(name);
  return name;
}

// ---- connecting

std::unique_ptr<Link> Link::open(const std::string &name, int ranks, int rank, std::string &error) {
  std::unique_ptr<Link> link(new Link(name, ranks, rank));
  int file = shm_open(name.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, sizeof(SharedState)) != 0)
    throw std::runtime_error("cannot open shared memory " + name);
  link->state = static_cast<SharedState *>(map(file, sizeof(SharedState)));
  close(file);
  Names::get().add(name);
  Names::get().add(link->outboxName(rank));
  int32_t expected = 0;
  if (!link->state->ranks.compare_exchange_strong(expected, ranks) && expected != ranks) {
    error = "the ranks state different numbers of ranks, " + std::to_string(expected) + " and " +
            std::to_string(ranks);
    return nullptr;
  }
  link->outboxes.resize(ranks);
  Mapping &own = link->outboxes[rank];
  own.file = shm_open(link->outboxName(rank).c_str(), O_RDWR | O_CREAT, 0600);
  if (own.file < 0)
    throw std::runtime_error("cannot open shared memory " + link->outboxName(rank));
  if (link->state->of[rank].present.exchange(1)) {
    error = "two processes are rank " + std::to_string(rank);
    return nullptr;
  }
  return link;
}

bool Link::connect() {
  if (connected)
    return true;
  if (!opened) {
    for (int peer = 0; peer < ranks; ++peer)
      if (!state->of[peer].present)
        return false;
    for (int peer = 0; peer < ranks; ++peer)
      if (peer != rank) {
        outboxes[peer].file = shm_open(outboxName(peer).c_str(), O_RDWR, 0600);
        if (outboxes[peer].file < 0)
          throw std::runtime_error("cannot open shared memory " + outboxName(peer));
      }
    opened = true;
    ++state->connected;
  }
  if (state->connected != ranks)
    return false;
  Names::get().remove(outboxName(rank));
  Names::get().remove(name);
  return connected = true;
}

Link::~Link() {
  if (state)
    munmap(state, sizeof(SharedState));
  for (Mapping &outbox : outboxes) {
    if (outbox.memory)
      munmap(outbox.memory, outbox.bytes);
    if (outbox.file >= 0)
      close(outbox.file);
  }
}

// ---- data

void Link::Mapping::grow(uint64_t size) {
  if (memory)
    munmap(memory, bytes);
  memory = nullptr;
  memory = static_cast<char *>(map(file, size));
  bytes = size;
}

bool Link::isRead(const Region &region) const {
  if (region.to >= 0)
    return wasReceived(region.to, region.number);
  return std::all_of(state->of, state->of + ranks,
                     [&](const SharedState::Rank &peer) { return peer.finished > region.number; });
}

/// Copies data to a free part of the outbox. Returns its offset.
uint64_t Link::place(uint64_t bytes, int to, uint64_t number, const char *data) {
  if (bytes == 0)
    return 0;
  regions.erase(std::remove_if(regions.begin(), regions.end(),
                               [&](const Region &region) { return isRead(region); }),
                regions.end());
  uint64_t offset = 0;
  auto before = regions.begin();
  for (; before != regions.end() && before->offset - offset < bytes; ++before)
    offset = (before->offset + before->bytes + 63) / 64 * 64;
  regions.insert(before, {offset, bytes, to, number});
  Mapping &own = outboxes[rank];
  if (offset + bytes > own.bytes) {
    uint64_t size = (std::max(offset + bytes, 2 * own.bytes) + 4095) / 4096 * 4096;
    // Unlike ftruncate, fails where the memory is too small.
    if (posix_fallocate(own.file, 0, size) != 0)
      throw std::runtime_error("no shared memory for " + std::to_string(size) + " bytes");
    own.grow(size);
  }
  std::memcpy(own.memory + offset, data, bytes);
  return offset;
}

const char *Link::data(int peer, const Message &message) {
  Mapping &outbox = outboxes[peer];
  if (message.offset + message.bytes > outbox.bytes) {
    struct stat info;
    if (fstat(outbox.file, &info) != 0)
      throw std::runtime_error("cannot read the size of shared memory");
    outbox.grow(info.st_size);
  }
  return outbox.memory + message.offset;
}

// ---- messages

bool Link::canPost() const {
  uint64_t number = state->of[rank].posted;
  return std::all_of(state->of, state->of + ranks, [&](const SharedState::Rank &peer) {
    return peer.finished + kSlots > number;
  });
}

uint64_t Link::post(Message message, const char *data) {
  SharedState::Rank &own = state->of[rank];
  uint64_t number = own.posted;
  message.offset = place(message.bytes, -1, number, data);
  own.slots[number % kSlots] = message;
  own.posted = number + 1;
  return number;
}

bool Link::allPosted(uint64_t number) const {
  return std::all_of(state->of, state->of + ranks,
                     [&](const SharedState::Rank &peer) { return peer.posted > number; });
}

const Message &Link::posted(int peer, uint64_t number) const {
  return state->of[peer].slots[number % kSlots];
}

void Link::finish(uint64_t number) { state->of[rank].finished = number + 1; }

bool Link::canSend(int to) const {
  const SharedState::Pair &pair = state->pairs[rank][to];
  return pair.sent - pair.received < kSlots;
}

uint64_t Link::send(int to, Message message, const char *data) {
  SharedState::Pair &pair = state->pairs[rank][to];
  uint64_t number = pair.sent;
  message.offset = place(message.bytes, to, number, data);
  pair.slots[number % kSlots] = message;
  pair.sent = number + 1;
  return number;
}

bool Link::wasReceived(int to, uint64_t number) const {
  return state->pairs[rank][to].received > number;
}

bool Link::canReceive(int from) const {
  const SharedState::Pair &pair = state->pairs[from][rank];
  return pair.sent > pair.received;
}

const Message &Link::receive(int from) const {
  const SharedState::Pair &pair = state->pairs[from][rank];
  return pair.slots[pair.received % kSlots];
}

void Link::finishReceive(int from) { ++state->pairs[from][rank].received; }

// ---- colors

bool Link::canOffer(uint64_t number) const {
  return std::all_of(state->of, state->of + ranks,
                     [&](const SharedState::Rank &peer) { return peer.seen + kSlots > number; });
}

void Link::offer(uint64_t number, Color color) {
  SharedState::Rank &own = state->of[rank];
  own.colors[number % kSlots] = color;
  own.offered = number + 1;
}

std::vector<Link::Color> Link::colors(uint64_t number) {
  std::vector<Color> all;
  for (int peer = 0; peer < ranks; ++peer) {
    if (state->of[peer].offered <= number)
      return {};
    all.push_back(state->of[peer].colors[number % kSlots]);
  }
  state->of[rank].seen = number + 1;
  return all;
}
