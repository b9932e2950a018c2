// Memory of the host device: state, arena and scratch, each mapped once.
#include "runtime/core/Error.h"
#include "runtime/device/host/Host.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <utility>

namespace shale::rt {

Block::Block(int64_t bytes, const char *what) {
  if (bytes < 0)
    fail(SHALE_EXIT_INTERNAL, "the program asks for %lld bytes of %s", (long long)bytes, what);
  length = bytes;
  if (bytes == 0)
    return;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    fail(SHALE_EXIT_NO_FIT,
         "cannot allocate %lld bytes for %s: %s; use fewer rows per rank, more ranks or "
         "--shard full",
         (long long)bytes, what, strerror(errno));
  // Large pages: kernels stream through these blocks.
  if (bytes >= (4 << 20))
    madvise(memory, bytes, MADV_HUGEPAGE);
  start = static_cast<char *>(memory);
}

Block::~Block() {
  if (start)
    munmap(start, length);
}

Block::Block(Block &&other) noexcept { *this = std::move(other); }

Block &Block::operator=(Block &&other) noexcept {
  std::swap(start, other.start);
  std::swap(length, other.length);
  return *this;
}

char *threadScratch(int64_t bytes) {
  thread_local Block block;
  if (block.size() < bytes) {
    block = Block(); // free the old block first
    try {
      block = Block(bytes, "a thread's scratch");
    } catch (const Error &error) { // cannot unwind compiled code
      die(error.code, error.what());
    }
  }
  return block.data();
}

} // namespace shale::rt
