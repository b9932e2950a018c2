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
    : program(program), rank(rank), blocks(blocks), places(program, blocks), device(device),
      collectives(collectives), sent(program.site_count), recorded(program, blocks),
      transfers(program.site_count), copied(program.transfer_count) {}

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
    recorded.add(std::move(event));
  if (phase == Phase::Check && position++ == recorded.updateBegin())
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
    recorded.findUse();
    phase = Phase::Between;
  } else if (phase == Phase::Check) {
    if (position != recorded.size())
      die(SHALE_EXIT_INTERNAL, "two steps differ in what they call");
    phase = Phase::Done;
  }
}

int64_t Watch::fillFree(char *block, int64_t bytes) const {
  std::vector<std::pair<int64_t, int64_t>> kept;
  for (int32_t i = 0; i < program.buffer_count; ++i) {
    const ShaleBuffer &buffer = program.buffers[i];
    if (recorded.isLive(i) && places.placeOf(buffer) == block + buffer.offset)
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

/// Returns the padding bytes in this rank's part of a group.
static int64_t paddingOf(const ShaleProgram &program, int rank, const ShaleState &slot) {
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
                       {"address", address(places.stateAt(slot.offset))},
                       {"bytes", bytes},
                       {"padding", paddingOf(program, rank, slot)},
                       {"touched", recorded.isTouched(slot.offset, bytes)}});
  }
  for (int32_t i = 0; i < program.buffer_count; ++i) {
    const ShaleBuffer &buffer = program.buffers[i];
    char *place = places.placeOf(buffer);
    bool inArena = place != nullptr;
    // State that does not outlive a step: accumulated gradients.
    bool onHost = buffer.block == SHALE_BLOCK_STATE && buffer.space == SHALE_SPACE_HOST;
    bool sums = buffer.block == SHALE_BLOCK_STATE && buffer.category == SHALE_CATEGORY_GRADIENTS;
    int64_t offset = buffer.offset + (onHost ? program.state_bytes : 0);
    if (inArena || sums)
      buffers.push_back(
          {{"name", buffer.name},
           {"category", textOf(kCategories, buffer.category)},
           {"space", placeText(buffer)},
           {"address", address(inArena ? place : places.stateAt(offset))},
           {"bytes", buffer.bytes},
           {"padding", buffer.padding},
           {"touched", inArena ? recorded.isLive(i) : recorded.isTouched(offset, buffer.bytes)}});
  }
  out["when_update_begins"] = buffers;
  out["bytes_overwritten_to_check"] = poisoned;
  out["units_at_once"] = recorded.mostUnits().size();
  out["units_where_most"] = recorded.mostUnits();
  ordered_json list = ordered_json::array();
  for (const RecordedStep::Gathered &gather : recorded.gathered())
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
