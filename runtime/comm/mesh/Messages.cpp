// Messages between ranks: who waits for them, and the memory of what describes them.
#include "runtime/comm/mesh/Messages.h"

namespace shale::rt {

namespace {
/// A pool for all threads. The pools of the library that do this have one per thread, which grow
/// when one thread frees what another one allocates.
class MessageMemory final : public std::pmr::memory_resource {
public:
  /// Takes blocks of the sizes of nodes and buffers, so that a step in which more messages wait
  /// than in those before finds them.
  MessageMemory() {
    constexpr size_t sizes[] = {8, 16, 64, 80, 96, 320, 512};
    constexpr int count = 8;
    for (size_t bytes : sizes) {
      void *blocks[count];
      for (void *&block : blocks)
        block = pool.allocate(bytes);
      for (void *block : blocks)
        pool.deallocate(block, bytes);
    }
  }

private:
  void *do_allocate(size_t bytes, size_t alignment) override {
    std::lock_guard<std::mutex> lock(mutex);
    return pool.allocate(bytes, alignment);
  }
  void do_deallocate(void *memory, size_t bytes, size_t alignment) override {
    std::lock_guard<std::mutex> lock(mutex);
    pool.deallocate(memory, bytes, alignment);
  }
  bool do_is_equal(const memory_resource &other) const noexcept override { return this == &other; }
  std::mutex mutex;
  std::pmr::unsynchronized_pool_resource pool;
};
} // namespace

std::pmr::memory_resource *messageMemory() {
  static auto *const memory = new MessageMemory; // never destroyed: threads use it to the end
  return memory;
}

void Awaited::begin() {
  std::lock_guard<std::mutex> lock(mutex);
  ++pending;
}

void Awaited::complete(bool isSent, int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  (isSent ? sent : received).push_back(rank);
  --pending;
  changed.notify_all(); // under the lock: the owner may end right after
}

} // namespace shale::rt
