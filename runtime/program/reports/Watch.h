// --report-buffers: records which buffers the compiled step actually uses.
//
// The first watched step is recorded with all its micro-batches: every launch, matmul,
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
#include "runtime/program/reports/BufferPlaces.h"
#include "runtime/program/reports/RecordedStep.h"

#include <string>
#include <vector>

namespace shale::rt {

class Collectives;
class Device;

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
  using Range = RecordedStep::Range;
  using Event = RecordedStep::Event;
  struct Transfer {
    Range send, recv;
  };

  void note(Event event);
  /// Fills what is free when the update begins with NaN.
  void poison();
  /// Fills the bytes of an arena that no live buffer occupies with NaN; returns their number.
  int64_t fillFree(char *block, int64_t bytes) const;

  const ShaleProgram &program;
  int rank;
  WatchedBlocks blocks;
  BufferPlaces places;
  Device &device;
  const Collectives &collectives;
  std::vector<int64_t> sent; // in the first step, by site
  Phase phase = Phase::Idle;
  RecordedStep recorded;           // the first step
  std::vector<Transfer> transfers; // by site
  std::vector<Range> copied;       // sources, by index of the copy
  size_t position = 0;             // of the next event of the second step
  int64_t residentAfterFirst = 0, poisoned = 0;
};

} // namespace shale::rt

#endif
