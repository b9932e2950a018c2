#include "Fibers.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <sys/mman.h>
#include <vector>

namespace shale::emulation {
namespace {

constexpr int32_t kWarp = 32;
// Not a multiple of the page size, so that the tops of stacks differ in their cache sets.
constexpr size_t kStack = (256 << 10) + 320;

// Saves the registers that a call preserves, and goes on on the stack `to` (System V ABI, x86-64),
// where the call that left it returns `result`. Functions that kernels call end with a jump to it:
// it then returns straight into the kernel, and mostly to the address that the processor predicts,
// as the lanes of a warp wait at the same place.
extern "C" __attribute__((visibility("hidden"))) int64_t shale_switch(void **from, void *to,
                                                                      int64_t result);
asm(R"(
.text
.globl shale_switch
.hidden shale_switch
.type shale_switch, @function
shale_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  mov %rdx, %rax
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size shale_switch, .-shale_switch
)");

enum class State { Barrier, Shuffle, Done };

struct alignas(64) Fiber {
  ShaleThread context; // first: the kernel's functions get its address
  class Block *block;
  void *stack = nullptr; // saved stack pointer; null before the first switch and after the end
  struct Warp *warp;
  int32_t lane;
  int32_t stackNumber;
  State state; // why it cannot run, if its warp says so
  int32_t site;
};

struct Warp {
  Fiber *fibers; // its first one
  int32_t size;
  uint32_t ready;    // the lanes that can run, as bits
  int32_t exchanges; // shuffles passed
  // A shuffle: the lanes that wait, whether at one site, and what they offer and ask for.
  int32_t arrived, site;
  bool diverges;
  struct Offer {
    int32_t value, offset, width, mode;
  } offers[kWarp];
  int64_t results[kWarp]; // of the last shuffle, by lane

  uint32_t all() const { return uint32_t(-1) >> (kWarp - size); }
  void reset() {
    ready = all();
    exchanges = arrived = 0;
    diverges = false;
  }
};

/// The stacks of the fibers of one thread of the host. They outlive launches: a page of a stack is
/// mapped once.
class Stacks {
public:
  ~Stacks() {
    if (start)
      munmap(start, size);
  }
  /// Provides stacks for the threads of a block, and forgets which are in use.
  void reset(int32_t count) {
    if (size_t(count) * kStack > size) {
      if (start)
        munmap(start, size);
      start = nullptr;
      size = size_t(count) * kStack;
      void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) {
        size = 0;
        throw std::bad_alloc();
      }
      start = static_cast<char *>(memory);
    }
    unused.resize(count);
    for (int32_t i = 0; i < count; ++i)
      unused[i] = count - 1 - i;
  }
  int32_t take() {
    int32_t stack = unused.back();
    unused.pop_back();
    return stack;
  }
  void release(int32_t stack) { unused.push_back(stack); }
  char *top(int32_t stack) const { return start + (size_t(stack) + 1) * kStack; }

private:
  char *start = nullptr;
  size_t size = 0;
  std::vector<int32_t> unused; // the next one is the one released last: its pages are in the cache
};
thread_local Stacks ownStacks;

/// Accesses to some bytes by one thread, or by several: the latest of them counts.
struct Stamp {
  uint32_t phase = 0; // of Block; 0: never
  int32_t thread = 0;
  int32_t exchanges = 0; // shuffles that its warp had passed
  int32_t site = 0;
};
constexpr int32_t kSeveral = -2; // instead of a thread

/// Memory whose accesses are checked for races.
class Watched {
public:
  /// Who accessed the bytes of a granule last.
  struct Shadow {
    Stamp write, read;
  };

  Watched(const char *name, const char *start, int64_t size, bool shared)
      : name(name), start(start), size(size), shared(shared) {}

  bool holds(const char *place) const { return uint64_t(place - start) < uint64_t(size); }

  /// The shadows of the bytes of an access, which are within the memory.
  std::pair<Shadow *, Shadow *> shadowsOf(int64_t offset, int32_t bytes) {
    if ((offset | bytes) & ((int64_t(1) << granule) - 1) || shadows.empty())
      split(offset | bytes);
    return {&shadows[offset >> granule], shadows.data() + ((offset + bytes) >> granule)};
  }
  int64_t offsetOf(const Shadow *shadow) const { return (shadow - shadows.data()) << granule; }

  const char *name;
  const char *start;
  int64_t size;
  bool shared; // by the threads of a block; blocks have their own

private:
  /// Makes granules so small that an access covers whole ones. All accesses before did, so each
  /// part of a granule has the granule's shadow.
  void split(int64_t offsetOrBytes) {
    int32_t fitting = std::min(granule, int32_t(__builtin_ctzll(offsetOrBytes)));
    std::vector<Shadow> parts(((size - 1) >> fitting) + 1);
    for (size_t i = 0; i < parts.size() && !shadows.empty(); ++i)
      parts[i] = shadows[i >> (granule - fitting)];
    shadows = std::move(parts);
    granule = fitting;
  }

  int32_t granule = 4; // the logarithm of its bytes
  std::vector<Shadow> shadows;
};

class Block {
public:
  Block(const Launch &launch, void *const *args, const Options &options, Result &result)
      : launch(launch), args(args), options(options), result(result), random(options.seed),
        fibers(launch.threads), warps((launch.threads + kWarp - 1) / kWarp), order(warps.size()),
        shared(launch.sharedBytes + 16) {
    char *memory =
        reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(shared.data()) + 15) / 16 * 16);
    sharedRange = {memory, uint64_t(launch.sharedBytes)};
    for (int32_t i = 0; i < launch.threads; ++i) {
      Fiber &fiber = fibers[i];
      fiber.block = this;
      fiber.warp = &warps[i / kWarp];
      fiber.lane = i % kWarp;
      fiber.context = {
          i,       0,
          memory,  barrier,
          shuffle, options.races ? access : options.observer ? accessObserved : accessWithoutRaces};
    }
    for (size_t i = 0; i < warps.size(); ++i) {
      warps[i].fibers = &fibers[i * kWarp];
      warps[i].size = std::min(kWarp, launch.threads - int32_t(i) * kWarp);
      order[i] = &warps[i];
    }
    if (descending)
      std::reverse(order.begin(), order.end());
    stacks.reset(launch.threads);
    if (!options.races)
      return;
    watched.emplace_back("shared memory", memory, launch.sharedBytes, true);
    for (auto [start, size] : options.buffers)
      watched.emplace_back("a buffer", static_cast<const char *>(start), size, false);
    lastWatched.assign(kSites, &watched.front());
  }

  bool run(int64_t number) {
    std::memset(shared.data(), 0xff, shared.size());
    this->number = number;
    firstPhase = ++phase;
    ended = waiting = 0;
    turn = 0;
    diverges = false;
    for (Warp &warp : warps)
      warp.reset();
    if (options.order == Order::Random)
      shuffleWarps();
    active = this;
    if (Fiber *first = choose())
      shale_switch(&main, stackOf(*first), 0);
    return result.error.empty();
  }

private:
  static Block &of(ShaleThread *thread) { return *reinterpret_cast<Fiber *>(thread)->block; }
  static Fiber &fiberOf(ShaleThread *thread) { return *reinterpret_cast<Fiber *>(thread); }

  // ---- switching

  /// The saved stack pointer of a fiber.
  void *stackOf(Fiber &fiber) { return fiber.stack ? fiber.stack : begin(fiber); }

  /// Gives a fiber a stack whose first switch enters enter().
  [[gnu::noinline]] void *begin(Fiber &fiber) {
    entering = &fiber;
    fiber.stackNumber = stacks.take();
    uintptr_t address = reinterpret_cast<uintptr_t>(stacks.top(fiber.stackNumber)) & ~uintptr_t(15);
    void **place = reinterpret_cast<void **>(address);
    *--place = nullptr; // the return address of enter, which never returns
    *--place = reinterpret_cast<void *>(&Block::enter);
    for (int i = 0; i < 6; ++i)
      *--place = nullptr;
    return place;
  }

  static thread_local Block *active;
  static void enter() {
    Block &block = *active;
    Fiber *fiber = block.entering;
    for (;;) {
      fiber->context.block = block.number;
      block.launch.function(&fiber->context, block.args);
      fiber->state = State::Done;
      fiber->stack = nullptr;
      fiber->warp->ready &= ~(1u << fiber->lane);
      ++block.ended;
      Fiber *next = block.choose();
      if (next && !next->stack) { // starts on this stack, whose pages are in the cache
        next->stackNumber = fiber->stackNumber;
        fiber = next;
        continue;
      }
      block.stacks.release(fiber->stackNumber);
      void *unused;
      shale_switch(&unused, next ? next->stack : block.main, next ? resultOf(*next) : 0);
    }
  }

  /// Lets the next thread run. Returns the result of the shuffle that `fiber` waits at, if it does,
  /// when it can run again. It cannot now, and the warps before its own cannot either: a warp goes
  /// on only by its own threads, except after a barrier.
  int64_t pause(Fiber &fiber, State state, int32_t site) {
    fiber.state = state;
    fiber.site = site;
    uint32_t ready = fiber.warp->ready;
    Fiber *next = ready ? pick(*fiber.warp, ready) : choose();
    if (!next)
      return shale_switch(&fiber.stack, main, 0);
    if (next == &fiber)
      return resultOf(fiber);
    return shale_switch(&fiber.stack, stackOf(*next), resultOf(*next));
  }

  /// Ends the launch after fail().
  void leave() {
    void *unused;
    shale_switch(&unused, main, 0);
  }

  static int64_t resultOf(const Fiber &fiber) { return fiber.warp->results[fiber.lane]; }

  /// The first lane by priority of those that are ready.
  Fiber *pick(const Warp &warp, uint32_t ready) const {
    return &warp.fibers[descending ? 31 - __builtin_clz(ready) : __builtin_ctz(ready)];
  }

  /// Returns the first thread by priority that can run. Null: all have ended, or none can go on.
  [[gnu::noinline]] Fiber *choose() {
    for (;;) {
      for (; turn < order.size(); ++turn)
        if (uint32_t ready = order[turn]->ready)
          return pick(*order[turn], ready);
      if (ended == launch.threads || !release())
        return nullptr;
    }
  }

  /// Orders the warps for a block.
  void shuffleWarps() {
    std::vector<int32_t> priority(warps.size());
    std::iota(priority.begin(), priority.end(), 0);
    std::shuffle(priority.begin(), priority.end(), random);
    for (size_t warp = 0; warp < priority.size(); ++warp)
      order[priority[warp]] = &warps[warp];
  }

  // ---- barriers and shuffles

  /// Lets the block go on if all of its threads wait at one barrier.
  bool release() {
    if (waiting < launch.threads || diverges)
      return failWait();
    for (Warp &warp : warps)
      warp.ready = warp.all();
    waiting = 0;
    turn = 0;
    ++phase;
    return true;
  }

  /// Says why no thread can run.
  [[gnu::noinline]] bool failWait() {
    int32_t site = -1;
    for (const Fiber &fiber : fibers) {
      if (fiber.state != State::Barrier) {
        const char *what = fiber.state == State::Done ? "has ended" : "waits at shuffle ";
        fail("deadlock: thread " + std::to_string(fiber.context.thread) + " " + what +
             (fiber.state == State::Done ? "" : std::to_string(fiber.site)) + " while others wait");
        return false;
      }
      if (site >= 0 && fiber.site != site) {
        fail("threads wait at different barriers: " + std::to_string(site) + " and " +
             std::to_string(fiber.site));
        return false;
      }
      site = fiber.site;
    }
    return false;
  }

  static void barrier(ShaleThread *thread, int32_t site) {
    Block &block = of(thread);
    if (site != block.lastBarrier)
      block.result.barriers.insert(site);
    block.lastBarrier = site;
    if (site == block.options.dropped)
      return;
    block.diverges |= block.waiting > 0 && site != block.waitingSite;
    block.waitingSite = site;
    ++block.waiting;
    Fiber &fiber = fiberOf(thread);
    fiber.warp->ready &= ~(1u << fiber.lane);
    block.pause(fiber, State::Barrier, site);
  }

  static int64_t shuffle(ShaleThread *thread, int32_t value, int32_t offset, int32_t width,
                         int32_t mode, int32_t site) {
    Fiber &fiber = fiberOf(thread);
    Warp &warp = *fiber.warp;
    warp.offers[fiber.lane] = {value, offset, width, mode};
    warp.ready &= ~(1u << fiber.lane);
    warp.diverges |= warp.arrived > 0 && site != warp.site;
    warp.site = site;
    if (++warp.arrived == warp.size && !warp.diverges)
      exchange(warp);
    return fiber.block->pause(fiber, State::Shuffle, site);
  }

  /// Lets a warp go on, all of whose threads wait at one shuffle.
  static void exchange(Warp &warp) {
    warp.ready = warp.all();
    warp.arrived = 0;
    ++warp.exchanges;
    for (int32_t lane = 0; lane < warp.size; ++lane) {
      const Warp::Offer &own = warp.offers[lane];
      int32_t first = own.width == kWarp ? 0 : lane / own.width * own.width;
      int32_t from = own.mode == 0   ? lane ^ own.offset
                     : own.mode == 1 ? lane - own.offset
                     : own.mode == 2 ? lane + own.offset
                                     : first + own.offset;
      bool valid = from >= first && from < first + own.width && from < warp.size;
      int32_t value = valid ? warp.offers[from].value : own.value;
      warp.results[lane] = int64_t(uint32_t(value)) | int64_t(valid) << 32;
    }
  }

  // ---- accesses to memory

  /// Whether an access of another thread is ordered before one of `fiber` now.
  bool ordered(const Fiber &fiber, const Stamp &other) const {
    auto self = int32_t(fiber.context.thread);
    if (other.phase < firstPhase)
      return false; // of another block
    if (other.thread == self || other.phase < phase)
      return true;
    return other.thread / kWarp == self / kWarp && other.exchanges < fiber.warp->exchanges;
  }

  static void access(ShaleThread *thread, const void *address, int32_t bytes, int32_t write,
                     int32_t site) {
    Block &block = of(thread);
    auto *place = static_cast<const char *>(address);
    Watched *&memory = block.lastWatched[uint32_t(site) % kSites];
    if (!memory->holds(place)) {
      auto found = std::find_if(block.watched.begin(), block.watched.end(),
                                [&](const Watched &each) { return each.holds(place); });
      if (found == block.watched.end())
        return block.failStray(thread, site);
      memory = &*found;
    }
    int64_t offset = place - memory->start;
    if (offset + bytes > memory->size) {
      block.fail("thread " + std::to_string(thread->thread) + " accesses byte " +
                 std::to_string(offset + bytes - 1) + " of " + std::to_string(memory->size) +
                 " of " + memory->name + ", site " + std::to_string(site));
      return block.leave();
    }
    auto [begin, end] = memory->shadowsOf(offset, bytes);
    for (Watched::Shadow *shadow = begin; shadow != end; ++shadow)
      block.note(fiberOf(thread), *memory, *shadow, write, site);
  }

  void note(const Fiber &fiber, const Watched &memory, Watched::Shadow &shadow, bool write,
            int32_t site) {
    auto self = int32_t(fiber.context.thread);
    const Stamp now = {phase, self, fiber.warp->exchanges, site};
    // Each block has shared memory of its own, so only accesses of this block count there.
    uint32_t oldest = memory.shared ? firstPhase : 1;
    if (shadow.write.phase >= oldest && !ordered(fiber, shadow.write))
      return race(fiber, write ? "writes " : "reads ", memory, shadow, site, "wrote", shadow.write);
    // Reads before the last barrier are forgotten. Of several readers, one is another thread.
    Stamp &read = shadow.read;
    bool current = read.phase >= oldest && (read.phase < firstPhase || read.phase == phase);
    if (write) {
      if (current && (read.thread == kSeveral || !ordered(fiber, read)))
        return race(fiber, "writes ", memory, shadow, site, "read", read);
      shadow.write = now;
      return;
    }
    bool several = current && read.thread != self;
    read = now;
    if (several)
      read.thread = kSeveral;
  }

  /// Memory that accesses at a site may touch.
  struct Range {
    const char *start;
    uint64_t size;

    bool holds(const char *place, uint64_t bytes) const {
      uint64_t offset = place - start;
      return offset <= size && bytes <= size - offset;
    }
  };

  static void accessWithoutRaces(ShaleThread *thread, const void *address, int32_t bytes, int32_t,
                                 int32_t site) {
    Block &block = of(thread);
    auto *place = static_cast<const char *>(address);
    Range &last = block.lastRanges[uint32_t(site) % kSites];
    if (!last.holds(place, bytes))
      block.findRange(thread, place, bytes, site, last);
  }

  /// Sets `last` to the memory that holds an access.
  [[gnu::noinline]] void findRange(ShaleThread *thread, const char *place, int32_t bytes,
                                   int32_t site, Range &last) {
    Range range = sharedRange;
    if (!range.holds(place, bytes)) {
      const auto &all = options.buffers;
      auto after =
          std::upper_bound(all.begin(), all.end(), place,
                           [](const void *at, const auto &buffer) { return at < buffer.first; });
      range = after == all.begin() ? Range{nullptr, 0}
                                   : Range{static_cast<const char *>(std::prev(after)->first),
                                           uint64_t(std::prev(after)->second)};
    }
    if (!range.holds(place, bytes))
      return failStray(thread, site);
    last = range;
  }

  static void accessObserved(ShaleThread *thread, const void *address, int32_t bytes, int32_t write,
                             int32_t site) {
    accessWithoutRaces(thread, address, bytes, write, site);
    Block &block = of(thread);
    if (!block.sharedRange.holds(static_cast<const char *>(address), bytes))
      block.options.observer->access(*thread, address, bytes, write, site);
  }

  // ---- failures

  void failStray(const ShaleThread *thread, int32_t site) {
    result.stray = result.error.empty();
    fail("thread " + std::to_string(thread->thread) + " of block " + std::to_string(number) +
         " accesses memory outside of every buffer at site " + std::to_string(site));
    leave();
  }

  void race(const Fiber &fiber, const char *does, const Watched &memory,
            const Watched::Shadow &shadow, int32_t site, const char *did, const Stamp &other) {
    fail("race: thread " + std::to_string(fiber.context.thread) + " of block " +
         std::to_string(number) + " " + does + "byte " + std::to_string(memory.offsetOf(&shadow)) +
         " of " + memory.name + " at site " + std::to_string(site) +
         (other.thread >= 0 ? ", which thread " + std::to_string(other.thread)
                            : ", which several threads") +
         " " + did + " at site " + std::to_string(other.site) + ", without a barrier between");
    leave();
  }
  void fail(std::string message) {
    if (result.error.empty())
      result.error = std::move(message);
  }

  const Launch &launch;
  void *const *args;
  const Options &options;
  Result &result;
  std::mt19937_64 random;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::vector<Warp *> order; // by priority
  std::vector<char> shared;
  const bool descending = options.order == Order::Last; // the order of a warp's lanes
  int64_t number = 0;                                   // of the block that runs
  // Phases are parts of blocks between barriers, counted over the launch.
  uint32_t phase = 0, firstPhase = 0; // that runs; the first one of its block
  size_t turn = 0;          // warps before it, in their order, have no thread that can run
  int32_t ended = 0;        // threads
  int32_t waiting = 0;      // threads at a barrier
  int32_t waitingSite = -1; // of the latest of them
  bool diverges = false;    // they wait at different ones
  int32_t lastBarrier = -1; // that a thread reached
  Stacks &stacks = ownStacks;
  void *main = nullptr;
  Fiber *entering = nullptr; // the one that starts at the next switch
  // The memory that accesses touched last, by their site modulo kSites.
  static constexpr uint32_t kSites = 64;
  Range sharedRange;
  Range lastRanges[kSites] = {};
  std::vector<Watched> watched;
  std::vector<Watched *> lastWatched;
};

thread_local Block *Block::active = nullptr;

} // namespace

Result run(const Launch &launch, void *const *args, const Options &options) {
  Result result;
  Block block(launch, args, options, result);
  std::vector<int64_t> numbers = options.sample;
  if (numbers.empty()) {
    numbers.resize(launch.blocks);
    std::iota(numbers.begin(), numbers.end(), 0);
  }
  if (options.order == Order::Last)
    std::reverse(numbers.begin(), numbers.end());
  if (options.order == Order::Random) {
    std::mt19937_64 random(options.seed);
    std::shuffle(numbers.begin(), numbers.end(), random);
  }
  for (int64_t number : numbers)
    if (!block.run(number))
      break;
  return result;
}

} // namespace shale::emulation
