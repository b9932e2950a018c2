// The calls of one step, and which buffers they use.
#ifndef SHALE_RUNTIME_PROGRAM_REPORTS_RECORDEDSTEP_H
#define SHALE_RUNTIME_PROGRAM_REPORTS_RECORDEDSTEP_H

#include "runtime/program/reports/BufferPlaces.h"

#include <string>
#include <vector>

namespace shale::rt {

/// Collects the calls of a step, and derives from their addresses alone when the update begins,
/// which buffers are in use then, and which gathered units are live at the same time.
class RecordedStep {
public:
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
  struct Gathered {
    int32_t site;
    size_t begin, end; // events
  };

  RecordedStep(const ShaleProgram &program, const WatchedBlocks &blocks)
      : program(program), places(program, blocks), live(program.buffer_count) {}

  void add(Event event) { events.push_back(std::move(event)); }
  /// Derives the use of buffers. Called once, after the last event.
  void findUse();

  /// Number of events.
  size_t size() const { return events.size(); }
  /// Whether an event accesses bytes at an offset as in ShaleState.
  bool isTouched(int64_t offset, int64_t bytes) const;

  // The use of buffers, after findUse().
  /// Index of the first event of the update.
  size_t updateBegin() const { return update; }
  /// Whether a buffer of the program's table is in use when the update begins.
  bool isLive(int32_t buffer) const { return live[buffer] != 0; }
  const std::vector<Gathered> &gathered() const { return gathers; }
  /// The largest set of units that are gathered at the same time.
  const std::vector<std::string> &mostUnits() const { return unitsAtOnce; }

private:
  void findUpdate();
  void findLiveBuffers();
  void findGathers();
  /// Returns the last event that belongs to the unit that event `start` begins to gather.
  size_t endOfGather(size_t start) const;
  void findMostUnits();

  const ShaleProgram &program;
  BufferPlaces places;
  std::vector<Event> events;
  size_t update = 0;
  std::vector<char> live; // by buffer of the program's table
  std::vector<Gathered> gathers;
  std::vector<std::string> unitsAtOnce;
};

} // namespace shale::rt

#endif
