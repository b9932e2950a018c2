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

extern "C" void shale_switch(void **from, void *to);
// Saves the registers that a call preserves, and changes stacks (System V ABI, x86-64).
asm(R"(
.text
.globl shale_switch
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
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size shale_switch, .-shale_switch
)");

enum class State { Ready, Barrier, Shuffle, Done };

struct Fiber {
  ShaleThread context; // first: the kernel's functions get its address
  class Block *block;
  void *stack = nullptr; // saved stack pointer; null before the first switch
  int32_t stackNumber;
  State state = State::Ready;
  int32_t site = -1;
  // A shuffle: what it offers, asks for and gets.
  int32_t value, offset, width, mode;
  int64_t result;
  int32_t epoch = 0;    // barriers passed
  int32_t exchange = 0; // shuffles passed by its warp
};

/// The stacks of the fibers of one thread of the host. They outlive launches: a page of a stack is
/// mapped once.
class Stacks {
public:
  ~Stacks() {
    if (start)
      munmap(start, size);
  }
  /// Provides stacks for a block, and forgets which are in use.
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

/// Who accessed a byte last.
struct Shadow {
  int64_t writerBlock = -1, readerBlock = -1;
  int32_t writer = -1, reader = -1; // reader: -2 if several threads
  int32_t writerEpoch = -1, readerEpoch = -1;
  int32_t writerExchange = 0, readerExchange = 0;
  int32_t writerSite = -1, readerSite = -1;
};

class Block {
public:
  Block(const Launch &launch, void *const *args, const Options &options, Result &result)
      : launch(launch), args(args), options(options), result(result), random(options.seed),
        fibers(launch.threads), shared(launch.sharedBytes + 16),
        sharedShadow(options.races ? launch.sharedBytes : 0) {
    if (options.races)
      for (auto [start, size] : options.buffers)
        buffers.push_back({static_cast<const char *>(start), std::vector<Shadow>(size)});
  }

  bool run(int64_t number) {
    char *memory =
        reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(shared.data()) + 15) / 16 * 16);
    std::memset(shared.data(), 0xff, shared.size());
    std::fill(sharedShadow.begin(), sharedShadow.end(), Shadow());
    sharedStart = memory;
    this->number = number;
    order();
    for (int32_t i = 0; i < launch.threads; ++i) {
      Fiber &fiber = fibers[i];
      fiber = Fiber();
      fiber.block = this;
      fiber.context = {
          i,       number,
          memory,  barrier,
          shuffle, options.races ? access : options.observer ? accessObserved : accessWithoutRaces};
    }
    stacks.reset(launch.threads);
    for (;;) {
      int32_t next = choose();
      if (next < 0) {
        if (std::all_of(fibers.begin(), fibers.end(),
                        [](const Fiber &fiber) { return fiber.state == State::Done; }))
          return true;
        if (!release())
          return false;
        continue;
      }
      current = &fibers[next];
      if (!current->stack) {
        current->stackNumber = stacks.take();
        start(*current, stacks.top(current->stackNumber));
      }
      shale_switch(&main, current->stack);
      if (current->state == State::Done)
        stacks.release(current->stackNumber);
      if (!result.error.empty())
        return false;
    }
  }

private:
  static Block &of(ShaleThread *thread) { return *reinterpret_cast<Fiber *>(thread)->block; }
  static Fiber &fiberOf(ShaleThread *thread) { return *reinterpret_cast<Fiber *>(thread); }

  /// Lays out a stack whose first switch enters enter().
  void start(Fiber &fiber, char *top) {
    uintptr_t address = reinterpret_cast<uintptr_t>(top) & ~uintptr_t(15);
    void **place = reinterpret_cast<void **>(address);
    *--place = nullptr; // the return address of enter, which never returns
    *--place = reinterpret_cast<void *>(&Block::enter);
    for (int i = 0; i < 6; ++i)
      *--place = nullptr;
    fiber.stack = place;
  }

  static thread_local Block *active;
  static void enter() {
    Block &block = *active;
    Fiber &fiber = *block.current;
    block.launch.function(&fiber.context, block.args);
    fiber.state = State::Done;
    block.yield();
  }

public:
  void activate() { active = this; }

private:
  void yield() {
    Fiber *self = current;
    shale_switch(&self->stack, main);
  }

  /// Returns a thread that can run, or -1.
  int32_t choose() {
    while (place < sequence.size() && fibers[sequence[place]].state != State::Ready)
      ++place;
    return place < sequence.size() ? sequence[place] : -1;
  }

  /// Orders the threads for a block.
  void order() {
    sequence.resize(launch.threads);
    std::iota(sequence.begin(), sequence.end(), 0);
    if (options.order == Order::Last)
      std::reverse(sequence.begin(), sequence.end());
    if (options.order == Order::Random) {
      std::vector<int32_t> priority((launch.threads + kWarp - 1) / kWarp);
      std::iota(priority.begin(), priority.end(), 0);
      std::shuffle(priority.begin(), priority.end(), random);
      std::vector<int32_t> warps(priority.size()); // by priority
      for (size_t warp = 0; warp < priority.size(); ++warp)
        warps[priority[warp]] = int32_t(warp);
      sequence.clear();
      for (int32_t warp : warps)
        for (int32_t i = warp * kWarp; i < std::min(launch.threads, (warp + 1) * kWarp); ++i)
          sequence.push_back(i);
    }
    places.resize(launch.threads);
    for (size_t at = 0; at < sequence.size(); ++at)
      places[sequence[at]] = at;
    place = 0;
    arrived.assign((launch.threads + kWarp - 1) / kWarp, 0);
  }

  /// Lets the block go on if all of its threads wait at one barrier.
  bool release() {
    int32_t site = -1;
    for (const Fiber &fiber : fibers) {
      if (fiber.state == State::Shuffle || fiber.state == State::Done) {
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
    for (Fiber &fiber : fibers) {
      fiber.state = State::Ready;
      ++fiber.epoch;
    }
    place = 0;
    return true;
  }

  /// Lets a warp go on if all of its threads wait at one shuffle.
  void releaseWarp(int32_t begin, int32_t end) {
    int32_t &count = arrived[begin / kWarp];
    if (++count < end - begin)
      return;
    for (int32_t i = begin; i < end; ++i)
      if (fibers[i].site != fibers[begin].site)
        return;
    count = 0;
    for (int32_t i = begin; i < end; ++i) {
      Fiber &fiber = fibers[i];
      int32_t lane = i - begin, first = lane / fiber.width * fiber.width;
      int32_t from = fiber.mode == 0   ? lane ^ fiber.offset
                     : fiber.mode == 1 ? lane - fiber.offset
                     : fiber.mode == 2 ? lane + fiber.offset
                                       : first + fiber.offset;
      bool valid = from >= first && from < first + fiber.width && begin + from < end;
      int32_t value = valid ? fibers[begin + from].value : fiber.value;
      fiber.result = int64_t(uint32_t(value)) | int64_t(valid) << 32;
    }
    for (int32_t i = begin; i < end; ++i) {
      fibers[i].state = State::Ready;
      ++fibers[i].exchange;
      place = std::min(place, places[i]);
    }
  }

  static void barrier(ShaleThread *thread, int32_t site) {
    Block &block = of(thread);
    if (site != block.lastBarrier)
      block.result.barriers.insert(site);
    block.lastBarrier = site;
    if (site == block.options.dropped)
      return;
    Fiber &fiber = fiberOf(thread);
    fiber.state = State::Barrier;
    fiber.site = site;
    block.yield();
  }

  static int64_t shuffle(ShaleThread *thread, int32_t value, int32_t offset, int32_t width,
                         int32_t mode, int32_t site) {
    Block &block = of(thread);
    Fiber &fiber = fiberOf(thread);
    fiber.state = State::Shuffle;
    fiber.site = site;
    fiber.value = value;
    fiber.offset = offset;
    fiber.width = width;
    fiber.mode = mode;
    int32_t first = int32_t(thread->thread) / kWarp * kWarp;
    block.releaseWarp(first, std::min(block.launch.threads, first + kWarp));
    block.yield();
    return fiber.result;
  }

  /// Whether an access of another thread, in its epochs, is ordered before one of `fiber` now.
  bool ordered(const Fiber &fiber, int64_t block, int32_t other, int32_t epoch,
               int32_t exchange) const {
    int32_t self = int32_t(fiber.context.thread);
    if (block != number)
      return false;
    if (other == self || epoch < fiber.epoch)
      return true;
    return other / kWarp == self / kWarp && exchange < fiber.exchange;
  }

  static void access(ShaleThread *thread, const void *address, int32_t bytes, int32_t write,
                     int32_t site) {
    Block &block = of(thread);
    Fiber &fiber = fiberOf(thread);
    auto *place = static_cast<const char *>(address);
    bool known = false;
    auto note = [&](const char *what, const char *start, std::vector<Shadow> &shadow) {
      int64_t offset = place - start;
      if (offset < 0 || offset >= int64_t(shadow.size()))
        return;
      known = true;
      if (offset + bytes > int64_t(shadow.size()))
        block.fail("thread " + std::to_string(thread->thread) + " accesses byte " +
                   std::to_string(offset + bytes - 1) + " of " + std::to_string(shadow.size()) +
                   " of " + what + ", site " + std::to_string(site));
      else
        for (int64_t at = offset; at < offset + bytes; ++at)
          block.noteByte(fiber, shadow[at], write, site, what, at);
    };
    note("shared memory", block.sharedStart, block.sharedShadow);
    for (auto &[start, shadow] : block.buffers)
      note("a buffer", start, shadow);
    if (!known)
      block.failStray(thread, site);
    if (!block.result.error.empty())
      block.yield(); // run() ends here
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
    Range &last = block.lastRanges[uint32_t(site) % kRanges];
    if (last.holds(place, bytes))
      return;
    Range range{block.sharedStart, uint64_t(block.launch.sharedBytes)};
    if (!range.holds(place, bytes)) {
      const auto &all = block.options.buffers;
      auto after =
          std::upper_bound(all.begin(), all.end(), address,
                           [](const void *at, const auto &buffer) { return at < buffer.first; });
      range = after == all.begin() ? Range{nullptr, 0}
                                   : Range{static_cast<const char *>(std::prev(after)->first),
                                           uint64_t(std::prev(after)->second)};
    }
    if (range.holds(place, bytes)) {
      last = range;
      return;
    }
    block.failStray(thread, site);
    block.yield();
  }

  static void accessObserved(ShaleThread *thread, const void *address, int32_t bytes, int32_t write,
                             int32_t site) {
    accessWithoutRaces(thread, address, bytes, write, site);
    Block &block = of(thread);
    Range own{block.sharedStart, uint64_t(block.launch.sharedBytes)};
    if (!own.holds(static_cast<const char *>(address), bytes))
      block.options.observer->access(*thread, address, bytes, write, site);
  }

  void failStray(const ShaleThread *thread, int32_t site) {
    result.stray = result.error.empty();
    fail("thread " + std::to_string(thread->thread) + " of block " + std::to_string(number) +
         " accesses memory outside of every buffer at site " + std::to_string(site));
  }

  void noteByte(Fiber &fiber, Shadow &shadow, bool write, int32_t site, const char *what,
                int64_t at) {
    int32_t self = int32_t(fiber.context.thread);
    if (shadow.writer >= 0 && !ordered(fiber, shadow.writerBlock, shadow.writer, shadow.writerEpoch,
                                       shadow.writerExchange))
      race(fiber, write ? "writes " : "reads ", what, at, site, "wrote", shadow.writer,
           shadow.writerSite);
    // Of several readers, -2, one is another thread.
    bool current = shadow.readerBlock != number || shadow.readerEpoch >= fiber.epoch;
    if (write && shadow.reader != -1 && current &&
        (shadow.reader == -2 || !ordered(fiber, shadow.readerBlock, shadow.reader,
                                         shadow.readerEpoch, shadow.readerExchange)))
      race(fiber, "writes ", what, at, site, "read", shadow.reader, shadow.readerSite);
    if (write) {
      shadow.writer = self;
      shadow.writerBlock = number;
      shadow.writerEpoch = fiber.epoch;
      shadow.writerExchange = fiber.exchange;
      shadow.writerSite = site;
      return;
    }
    bool same = shadow.readerBlock == number && shadow.readerEpoch == fiber.epoch;
    bool several = shadow.reader == -2 || (shadow.reader >= 0 && shadow.reader != self);
    shadow.reader = (same || shadow.readerBlock != number) && several ? -2 : self;
    shadow.readerBlock = number;
    shadow.readerEpoch = fiber.epoch;
    shadow.readerExchange = fiber.exchange;
    shadow.readerSite = site;
  }

  void race(const Fiber &fiber, const char *does, const char *what, int64_t at, int32_t site,
            const char *did, int32_t other, int32_t otherSite) {
    fail("race: thread " + std::to_string(fiber.context.thread) + " of block " +
         std::to_string(number) + " " + does + "byte " + std::to_string(at) + " of " + what +
         " at site " + std::to_string(site) +
         (other >= 0 ? ", which thread " + std::to_string(other) : ", which several threads") +
         " " + did + " at site " + std::to_string(otherSite) + ", without a barrier between");
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
  std::vector<char> shared;
  const char *sharedStart = nullptr;
  std::vector<Shadow> sharedShadow;
  std::vector<std::pair<const char *, std::vector<Shadow>>> buffers;
  int64_t number = 0;            // of the block that runs
  std::vector<int32_t> sequence; // the threads, by priority
  std::vector<size_t> places;    // of the threads in the sequence
  std::vector<int32_t> arrived;  // of each warp, threads at a shuffle
  Stacks &stacks = ownStacks;
  size_t place = 0; // threads before it cannot run
  int32_t lastBarrier = -1;
  static constexpr uint32_t kRanges = 64;
  Range lastRanges[kRanges] = {}; // of sites, modulo their number
  void *main = nullptr;
  Fiber *current = nullptr;
};

thread_local Block *Block::active = nullptr;

} // namespace

Result run(const Launch &launch, void *const *args, const Options &options) {
  Result result;
  Block block(launch, args, options, result);
  block.activate();
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
