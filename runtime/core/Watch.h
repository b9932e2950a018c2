// What the compiled step really touches: --report-buffers.
//
// The first step that is watched is recorded, all its micro-batches: every launch,
// product, collective and copy between the memories with the addresses it reads and
// writes. From that alone follow which buffers are in use when the update begins and
// which gathered units are whole at once. In the second step all bytes of the arenas
// that are said to be free at the update's begin (and the whole arenas before each
// micro-batch) are filled with NaN: were one of them in use, the run would take
// another course.
#ifndef SHALE_RUNTIME_CORE_WATCH_H
#define SHALE_RUNTIME_CORE_WATCH_H

#include "shale/Runtime.h"

#include <string>
#include <vector>

namespace shale::rt {

class Watch {
public:
  /// The state of host memory follows the device's.
  Watch(const ShaleProgram &program, int rank, char *state, char *arena,
        char *hostArena);

  // Of compiled code, before the call is made; main thread only.
  void launch(void *const *args, int32_t inputs, int32_t outputs);
  void gemm(const void *a, const void *b, const void *c);
  void start(int32_t site, const void *send, const void *recv, int64_t count,
             int32_t type);
  void wait(int32_t site);
  void startCopy(int32_t index, const void *target, const void *source,
                 int64_t bytes);
  void waitCopy(int32_t index);

  /// Before each compiled function of a step.
  void beginFunction(bool firstOfStep);
  void endStep();
  /// Both steps are over.
  bool done() const { return phase == Phase::Done; }
  /// This rank's object.
  std::string report() const;

private:
  enum class Phase { Idle, Record, Between, Check, Done };
  /// A piece of memory; `bytes` is 0 where the call does not say.
  struct Range {
    const char *begin;
    int64_t bytes;
  };
  struct Event {
    std::vector<Range> reads, writes;
    int32_t site = -1; // of a start or a wait
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
  /// Where a buffer of the program's table lies; null for what is none of an arena.
  char *placeOf(const ShaleBuffer &buffer) const;
  int64_t fillFree(char *block, int64_t bytes) const;
  bool isTouched(int64_t offset, int64_t bytes) const;
  int64_t paddingOf(const ShaleState &state) const;

  const ShaleProgram &program;
  int rank;
  char *state, *arena, *hostArena;
  Phase phase = Phase::Idle;
  std::vector<Event> events;
  std::vector<Transfer> transfers; // by site
  std::vector<Range> copied;       // sources, by number of the copy
  size_t position = 0;             // of the next event of the second step
  size_t update = 0;               // the update begins with this event
  std::vector<char> live;          // by buffer of the program's table
  std::vector<Gathered> gathers;
  std::vector<std::string> unitsAtOnce; // where they are most
  int64_t residentAfterFirst = 0, poisoned = 0;
};

} // namespace shale::rt

#endif
