// --report-buffers: records which buffers the compiled step actually uses.
//
// The first watched step is recorded with all its micro-batches: every launch, product,
// collective and copy between device and host memory, with the addresses that it reads
// and writes. From these events alone it is derived which buffers are in use when the
// update begins and which gathered units are live at the same time. In the second step,
// all bytes of the arenas that were found to be free when the update begins (and the
// whole arenas before each micro-batch) are filled with NaN: if one of them were in
// use, the results of the run would change. The bytes that collectives sent in the first
// step are the communicator's own counts.
#ifndef SHALE_RUNTIME_PROGRAM_REPORTS_WATCH_H
#define SHALE_RUNTIME_PROGRAM_REPORTS_WATCH_H

#include "runtime/program/calls/Observer.h"

#include <string>
#include <vector>

namespace shale::rt {

class Collectives;
class Device;

/// Addresses of a rank's blocks.
struct WatchedBlocks {
  char *state, *hostState, *arena, *hostArena;
};

class Watch final : public Observer {
public:
  Watch(const ShaleProgram &program, int rank, const WatchedBlocks &blocks, Device &device,
        const Collectives &collectives);

  void call(const char *what, const std::vector<Operand> &reads,
            const std::vector<Operand> &writes) override;
  void copy(const void *target, const void *source, int64_t bytes) override;
  void start(int32_t site, const void *send, const void *recv, int64_t count,
             int32_t type) override;
  void wait(int32_t site) override;
  void startCopy(int32_t index, const void *target, const void *source, int64_t bytes) override;
  void waitCopy(int32_t index) override;

  /// Called before each compiled function of a step.
  void beginFunction(bool firstOfStep);
  void endStep();
  /// Whether both steps are over.
  bool done() const { return phase == Phase::Done; }
  /// Returns this rank's JSON object.
  std::string report() const;

private:
  enum class Phase { Idle, Record, Between, Check, Done };
  /// A range of memory; `bytes` is 0 if the call does not give the size.
  struct Range {
    const char *begin;
    int64_t bytes;
  };
  struct Event {
    std::vector<Range> reads, writes;
    int32_t site = -1; // of the start or wait of a collective
    bool starts = false;
  };
  struct Transfer {
    Range send, recv;
  };
  struct Gathered {
    int32_t site;
    size_t begin, end; // events
  };

  void note(Event event);
  void findUpdate();
  void findLiveBuffers();
  void findGathers();
  void poison();
  bool inState(const char *at) const;
  bool inArena(const char *at) const;
  /// Returns the address of a buffer of the program's table; null if it is not in an arena.
  char *placeOf(const ShaleBuffer &buffer) const;
  int64_t fillFree(char *block, int64_t bytes) const;
  /// Returns the address of an offset as in ShaleState.
  char *stateAt(int64_t offset) const;
  bool isTouched(int64_t offset, int64_t bytes) const;
  int64_t paddingOf(const ShaleState &state) const;

  const ShaleProgram &program;
  int rank;
  WatchedBlocks blocks;
  Device &device;
  const Collectives &collectives;
  std::vector<int64_t> sent; // in the first step, by site
  Phase phase = Phase::Idle;
  std::vector<Event> events;
  std::vector<Transfer> transfers; // by site
  std::vector<Range> copied;       // sources, by index of the copy
  size_t position = 0;             // of the next event of the second step
  size_t update = 0;               // first event of the update
  std::vector<char> live; // by buffer of the program's table: in use when the update begins
  std::vector<Gathered> gathers;
  std::vector<std::string>
      unitsAtOnce; // the largest set of units that are gathered at the same time
  int64_t residentAfterFirst = 0, poisoned = 0;
};

} // namespace shale::rt

#endif
