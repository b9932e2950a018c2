// Runs GPU kernels that are compiled for the CPU: the threads of a block are fibers.
//
// The order in which threads run is adversarial. Every access to memory must lie in a
// buffer. Unless Options.races is off, it is checked against those of other threads since
// the last barrier.
#ifndef SHALE_TEST_EMULATION_FIBERS_H
#define SHALE_TEST_EMULATION_FIBERS_H

#include "shale/Emulation.h"
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace shale::emulation {

enum class Order { First, Last, Random }; // which thread of those that can run is next

/// Sees the accesses to global memory.
class Observer {
public:
  virtual ~Observer() = default;
  virtual void access(const ShaleThread &thread, const void *address, int32_t bytes, bool write,
                      int32_t site) = 0;
};

struct Options {
  Order order = Order::First;
  uint64_t seed = 1;    // Order::Random: of the warps' priorities and of the blocks' order
  int32_t dropped = -1; // the barrier at this site does not wait
  /// All that a kernel may access: first byte and number of bytes. Disjoint.
  std::vector<std::pair<const void *, int64_t>> buffers = {};
  /// Looks for races. If not, `buffers` must be sorted; they may be large then.
  bool races = true;
  Observer *observer = nullptr;     // with `races` off
  std::vector<int64_t> sample = {}; // the blocks to run; empty: all
};

struct Launch {
  ShaleThreadFunction function;
  int64_t blocks;
  int32_t threads;
  int64_t sharedBytes;
};

/// What a launch met.
struct Result {
  std::string error;  // the first race, stray access, divergent barrier or deadlock; empty: none
  bool stray = false; // the error is an access to memory outside of every buffer
  std::set<int32_t> barriers; // the sites of the barriers that threads reached
};

/// Runs a kernel. Shared memory is NaN at the start of each block.
Result run(const Launch &launch, void *const *args, const Options &options);

} // namespace shale::emulation

#endif
