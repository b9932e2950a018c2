// --report-buffers: records which buffers the compiled step actually uses.
#include "runtime/program/reports/Watch.h"
#include "runtime/comm/Collectives.h"
#include "runtime/core/AbiWords.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Types.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

namespace shale::rt {

Watch::Watch(const ShaleProgram &program, int rank, const WatchedBlocks &blocks, Device &device,
             const Collectives &collectives)
    : program(program), rank(rank), blocks(blocks), device(device), collectives(collectives),
      sent(program.site_count), transfers(program.site_count), copied(program.transfer_count),
      live(program.buffer_count) {}

/// Whether an address is in a parameter, moment or momentum buffer; accumulated gradients, and what
/// is not sent of them, are not included.
bool Watch::inState(const char *at) const {
  for (int32_t i = 0; i < program.state_count; ++i) {
    const ShaleState &slot = program.states[i];
    int64_t bytes = slot.local_count * sizeOf(static_cast<Dtype>(slot.type));
    const char *begin = stateAt(slot.offset);
    if (at >= begin && at < begin + bytes)
      return slot.role != SHALE_ROLE_RESIDUAL;
  }
  return false;
}

char *Watch::stateAt(int64_t offset) const {
  return offset < program.state_bytes ? blocks.state + offset
                                      : blocks.hostState + (offset - program.state_bytes);
}

bool Watch::inArena(const char *at) const {
  return (at >= blocks.arena && at < blocks.arena + program.arena_bytes) ||
         (at >= blocks.hostArena && at < blocks.hostArena + program.host_arena_bytes);
}

char *Watch::placeOf(const ShaleBuffer &buffer) const {
  if (buffer.block != SHALE_BLOCK_ARENA)
    return nullptr;
  return (buffer.space == SHALE_SPACE_HOST ? blocks.hostArena : blocks.arena) + buffer.offset;
}

void Watch::call(const char *, const std::vector<Operand> &reads,
                 const std::vector<Operand> &writes) {
  Event event;
  for (const Operand &operand : reads)
    event.reads.push_back({static_cast<const char *>(operand.at), 0});
  for (const Operand &operand : writes)
    event.writes.push_back({static_cast<const char *>(operand.at), 0});
  note(std::move(event));
}

void Watch::copy(const void *target, const void *source, int64_t bytes) {
  Event event;
  if (source)
    event.reads = {{static_cast<const char *>(source), bytes}};
  event.writes = {{static_cast<const char *>(target), bytes}};
  note(std::move(event));
}

void Watch::start(int32_t site, const void *send, const void *recv, int64_t count, int32_t type) {
  const ShaleSite &what = program.sites[site];
  int64_t bytes = count * sizeOf(static_cast<Dtype>(type));
  int64_t whole = bytes * axisSize(program, what.axis);
  transfers[site] = {{static_cast<const char *>(send), sendsAll(what.kind) ? whole : bytes},
                     {static_cast<const char *>(recv), receivesAll(what.kind) ? whole : bytes}};
  Event event;
  event.reads = {transfers[site].send};
  event.writes = {transfers[site].recv};
  event.site = site;
  event.starts = true;
  note(std::move(event));
}

/// The send buffer is read until the wait.
void Watch::wait(int32_t site) {
  Event event;
  event.reads = {transfers[site].send};
  event.site = site;
  note(std::move(event));
}

void Watch::startCopy(int32_t index, const void *target, const void *source, int64_t bytes) {
  copied[index] = {static_cast<const char *>(source), bytes};
  copy(target, source, bytes);
}

/// The source is read until the wait.
void Watch::waitCopy(int32_t index) {
  Event event;
  event.reads = {copied[index]};
  note(std::move(event));
}

void Watch::note(Event event) {
  if (phase == Phase::Record)
    events.push_back(std::move(event));
  if (phase == Phase::Check && position++ == update)
    poison();
}

void Watch::beginFunction(bool firstOfStep) {
  if (phase == Phase::Idle && firstOfStep) {
    phase = Phase::Record;
    for (int32_t site = 0; site < program.site_count; ++site)
      sent[site] = -collectives.bytesSent(site);
  } else if (phase == Phase::Between && firstOfStep) {
    phase = Phase::Check;
  }
  if (phase != Phase::Check)
    return;
  // No value in an arena outlives a function.
  device.fill(blocks.arena, 0xff, program.arena_bytes);
  if (program.host_arena_bytes > 0)
    device.fill(blocks.hostArena, 0xff, program.host_arena_bytes);
}

void Watch::endStep() {
  if (phase == Phase::Record) {
    residentAfterFirst = residentBytes();
    for (int32_t site = 0; site < program.site_count; ++site)
      sent[site] += collectives.bytesSent(site);
    findUpdate();
    findLiveBuffers();
    findGathers();
    phase = Phase::Between;
  } else if (phase == Phase::Check) {
    if (position != events.size())
      die(SHALE_EXIT_INTERNAL, "two steps differ in what they call");
    phase = Phase::Done;
  }
}

/// The update begins where state is first written; where gradients are reduced
/// at the end (ZeRO-1), with the first reduce-scatter or all-to-all.
void Watch::findUpdate() {
  bool atEnd = program.reduces_at_end;
  for (update = 0; update < events.size(); ++update) {
    const Event &event = events[update];
    bool scatter = event.starts && sendsAll(program.sites[event.site].kind);
    bool writes = std::any_of(event.writes.begin(), event.writes.end(),
                              [&](Range to) { return inState(to.begin); });
    if (writes || (atEnd && scatter))
      return;
  }
}

/// A buffer is live if it is read after the update begins, before it is overwritten.
/// The second step checks that no other buffer is.
void Watch::findLiveBuffers() {
  std::vector<char> overwritten(program.buffer_count);
  auto bufferAt = [&](const char *at) {
    for (int32_t i = 0; i < program.buffer_count; ++i) {
      const ShaleBuffer &buffer = program.buffers[i];
      const char *begin = placeOf(buffer);
      if (begin && at >= begin && at < begin + std::max<int64_t>(buffer.bytes, 1))
        return i;
    }
    return -1;
  };
  for (size_t e = update; e < events.size(); ++e) {
    for (Range from : events[e].reads) {
      if (!inArena(from.begin))
        continue;
      int32_t buffer = bufferAt(from.begin);
      if (buffer >= 0 && !overwritten[buffer])
        live[buffer] = 1;
    }
    for (Range to : events[e].writes) {
      if (!inArena(to.begin))
        continue;
      // A write inside a buffer overwrites only a part of it.
      int32_t buffer = bufferAt(to.begin);
      if (buffer >= 0 && to.begin == placeOf(program.buffers[buffer]))
        overwritten[buffer] = 1;
    }
  }
}

/// A gathered unit is live from the start of its all-gather to the last read
/// before its buffer is overwritten.
void Watch::findGathers() {
  for (size_t e = 0; e < events.size(); ++e) {
    if (!events[e].starts || !inArena(events[e].writes[0].begin) ||
        !rt::gathers(program.sites[events[e].site].kind))
      continue;
    Range whole = events[e].writes[0];
    bool words = isEncoded(program.sites[events[e].site].type);
    Gathered gather{events[e].site, e, e};
    auto within = [&](Range range) {
      return range.begin < whole.begin + whole.bytes &&
             range.begin + std::max<int64_t>(range.bytes, 1) > whole.begin;
    };
    for (size_t later = e + 1; later < events.size(); ++later) {
      const Event &event = events[later];
      bool reads = std::any_of(event.reads.begin(), event.reads.end(), within);
      if (event.site == gather.site || reads)
        gather.end = later;
      if (reads && words && !event.writes.empty()) { // the unit is what the kernel makes of them
        whole = event.writes[0];
        words = false;
        continue;
      }
      if (std::any_of(event.writes.begin(), event.writes.end(), within))
        break;
    }
    gathers.push_back(gather);
  }
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

/// Fills the bytes of an arena that no live buffer occupies with NaN; returns their number.
int64_t Watch::fillFree(char *block, int64_t bytes) const {
  std::vector<std::pair<int64_t, int64_t>> kept;
  for (int32_t i = 0; i < program.buffer_count; ++i) {
    const ShaleBuffer &buffer = program.buffers[i];
    if (live[i] && placeOf(buffer) == block + buffer.offset)
      kept.push_back({buffer.offset, buffer.offset + buffer.bytes});
  }
  std::sort(kept.begin(), kept.end());
  kept.push_back({bytes, bytes});
  int64_t at = 0, filled = 0;
  for (auto [begin, end] : kept) {
    if (begin > at) {
      device.fill(block + at, 0xff, begin - at);
      filled += begin - at;
    }
    at = std::max(at, end);
  }
  return filled;
}

void Watch::poison() {
  poisoned += fillFree(blocks.arena, program.arena_bytes);
  if (program.host_arena_bytes > 0)
    poisoned += fillFree(blocks.hostArena, program.host_arena_bytes);
}

bool Watch::isTouched(int64_t offset, int64_t bytes) const {
  const char *begin = stateAt(offset);
  auto within = [&](Range range) { return range.begin >= begin && range.begin < begin + bytes; };
  return std::any_of(events.begin(), events.end(), [&](const Event &event) {
    return std::any_of(event.reads.begin(), event.reads.end(), within) ||
           std::any_of(event.writes.begin(), event.writes.end(), within);
  });
}

/// Returns the padding bytes in this rank's part of a group.
int64_t Watch::paddingOf(const ShaleState &slot) const {
  const ShaleGroup &group = program.groups[slot.group];
  int64_t begin = 0;
  if (slot.axis >= 0)
    begin = coordinatesOf(program, rank)[slot.axis] * slot.local_count;
  int64_t end = begin + slot.local_count, used = 0;
  for (int32_t s = 0; s < group.segment_count; ++s) {
    const ShaleSegment &segment = group.segments[s];
    int64_t low = std::max(begin, segment.offset);
    int64_t high = std::min(end, segment.offset + segment.count);
    used += std::max<int64_t>(0, high - low);
  }
  return (slot.local_count - used) * sizeOf(static_cast<Dtype>(slot.type));
}

std::string Watch::report() const {
  using nlohmann::ordered_json;
  auto address = [](const void *at) { return format("%p", const_cast<void *>(at)); };
  ordered_json out;
  out["rank"] = rank;
  out["blocks"] = ordered_json::array();
  auto addBlock = [&](const char *name, const char *begin, int64_t bytes) {
    if (bytes > 0)
      out["blocks"].push_back({{"name", name}, {"address", address(begin)}, {"bytes", bytes}});
  };
  addBlock("state", blocks.state, program.state_bytes);
  addBlock("arena", blocks.arena, program.arena_bytes);
  addBlock("host state", blocks.hostState, program.host_state_bytes);
  addBlock("host arena", blocks.hostArena, program.host_arena_bytes);
  ordered_json buffers = ordered_json::array();
  for (int32_t i = 0; i < program.state_count; ++i) {
    const ShaleState &slot = program.states[i];
    int64_t bytes = slot.local_count * sizeOf(static_cast<Dtype>(slot.type));
    buffers.push_back({{"name", program.groups[slot.group].name},
                       {"category", slot.role == SHALE_ROLE_PARAM      ? "parameters"
                                    : slot.role == SHALE_ROLE_RESIDUAL ? "gradients"
                                                                       : "optimizer"},
                       {"role", roleName(program, slot.role)},
                       {"space", slot.offset < program.state_bytes ? "state" : "host state"},
                       {"address", address(stateAt(slot.offset))},
                       {"bytes", bytes},
                       {"padding", paddingOf(slot)},
                       {"touched", isTouched(slot.offset, bytes)}});
  }
  for (int32_t i = 0; i < program.buffer_count; ++i) {
    const ShaleBuffer &buffer = program.buffers[i];
    char *place = placeOf(buffer);
    bool inArena = place != nullptr;
    // State that does not outlive a step: accumulated gradients.
    bool onHost = buffer.block == SHALE_BLOCK_STATE && buffer.space == SHALE_SPACE_HOST;
    bool sums = buffer.block == SHALE_BLOCK_STATE && buffer.category == SHALE_CATEGORY_GRADIENTS;
    int64_t offset = buffer.offset + (onHost ? program.state_bytes : 0);
    if (inArena || sums)
      buffers.push_back({{"name", buffer.name},
                         {"category", textOf(kCategories, buffer.category)},
                         {"space", placeText(buffer)},
                         {"address", address(inArena ? place : stateAt(offset))},
                         {"bytes", buffer.bytes},
                         {"padding", buffer.padding},
                         {"touched", inArena ? live[i] != 0 : isTouched(offset, buffer.bytes)}});
  }
  out["when_update_begins"] = buffers;
  out["bytes_overwritten_to_check"] = poisoned;
  out["units_at_once"] = unitsAtOnce.size();
  out["units_where_most"] = unitsAtOnce;
  ordered_json list = ordered_json::array();
  for (const Gathered &gather : gathers)
    list.push_back(
        {{"unit", program.sites[gather.site].name}, {"from", gather.begin}, {"to", gather.end}});
  out["gathers"] = list;
  ordered_json sites = ordered_json::array();
  for (int32_t i = 0; i < program.site_count; ++i)
    if (program.sites[i].times > 0)
      sites.push_back({{"name", program.sites[i].name},
                       {"kind", kindName(static_cast<ShaleCollectiveKind>(program.sites[i].kind))},
                       {"axis", axisName(program, program.sites[i].axis)},
                       {"bytes", sent[i]}});
  out["sent"] = sites;
  out["resident_after_first_step"] = residentAfterFirst;
  out["resident"] = residentBytes();
  out["resident_peak"] = residentPeakBytes();
  return out.dump();
}

} // namespace shale::rt
