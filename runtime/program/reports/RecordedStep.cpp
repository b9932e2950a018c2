// The calls of one step, and which buffers they use.
#include "runtime/program/reports/RecordedStep.h"
#include "runtime/comm/Collectives.h"
#include "runtime/core/Types.h"

#include <algorithm>

namespace shale::rt {

void RecordedStep::findUse() {
  findUpdate();
  findLiveBuffers();
  findGathers();
  findMostUnits();
}

bool RecordedStep::isTouched(int64_t offset, int64_t bytes) const {
  const char *begin = places.stateAt(offset);
  auto within = [&](Range range) { return range.begin >= begin && range.begin < begin + bytes; };
  return std::any_of(events.begin(), events.end(), [&](const Event &event) {
    return std::any_of(event.reads.begin(), event.reads.end(), within) ||
           std::any_of(event.writes.begin(), event.writes.end(), within);
  });
}

/// The update begins where state is first written; where gradients are reduced
/// at the end (ZeRO-1), with the first reduce-scatter or all-to-all.
void RecordedStep::findUpdate() {
  bool atEnd = program.reduces_at_end;
  for (update = 0; update < events.size(); ++update) {
    const Event &event = events[update];
    bool scatter = event.starts && sendsAll(program.sites[event.site].kind);
    bool writes = std::any_of(event.writes.begin(), event.writes.end(),
                              [&](Range to) { return places.inState(to.begin); });
    if (writes || (atEnd && scatter))
      return;
  }
}

/// A buffer is live if it is read after the update begins, before it is overwritten.
/// The second step checks that no other buffer is.
void RecordedStep::findLiveBuffers() {
  std::vector<char> overwritten(program.buffer_count);
  for (size_t e = update; e < events.size(); ++e) {
    for (Range from : events[e].reads) {
      if (!places.inArena(from.begin))
        continue;
      int32_t buffer = places.bufferAt(from.begin);
      if (buffer >= 0 && !overwritten[buffer])
        live[buffer] = 1;
    }
    for (Range to : events[e].writes) {
      if (!places.inArena(to.begin))
        continue;
      // A write inside a buffer overwrites only a part of it.
      int32_t buffer = places.bufferAt(to.begin);
      if (buffer >= 0 && to.begin == places.placeOf(program.buffers[buffer]))
        overwritten[buffer] = 1;
    }
  }
}

/// A gathered unit is live from the start of its all-gather to the last read
/// before its buffer is overwritten.
void RecordedStep::findGathers() {
  for (size_t e = 0; e < events.size(); ++e)
    if (events[e].starts && places.inArena(events[e].writes[0].begin) &&
        rt::gathers(program.sites[events[e].site].kind))
      gathers.push_back({events[e].site, e, endOfGather(e)});
}

size_t RecordedStep::endOfGather(size_t start) const {
  Range whole = events[start].writes[0];
  int32_t site = events[start].site;
  bool words = isEncoded(program.sites[site].type);
  size_t end = start;
  auto within = [&](Range range) {
    return range.begin < whole.begin + whole.bytes &&
           range.begin + std::max<int64_t>(range.bytes, 1) > whole.begin;
  };
  for (size_t later = start + 1; later < events.size(); ++later) {
    const Event &event = events[later];
    bool reads = std::any_of(event.reads.begin(), event.reads.end(), within);
    if (event.site == site || reads)
      end = later;
    if (reads && words && !event.writes.empty()) { // the unit is what the kernel makes of them
      whole = event.writes[0];
      words = false;
      continue;
    }
    if (std::any_of(event.writes.begin(), event.writes.end(), within))
      break;
  }
  return end;
}

void RecordedStep::findMostUnits() {
  for (size_t e = 0; e < events.size(); ++e) {
    std::vector<std::string> units;
    for (const Gathered &gather : gathers)
      if (gather.begin <= e && e <= gather.end)
        units.push_back(program.sites[gather.site].name);
    std::sort(units.begin(), units.end());
    units.erase(std::unique(units.begin(), units.end()), units.end());
    if (units.size() > unitsAtOnce.size())
      unitsAtOnce = units;
  }
}

} // namespace shale::rt
