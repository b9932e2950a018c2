// A program in the memory of a rank's device.
#include "runtime/program/loop/LoadedProgram.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/core/Error.h"
#include "runtime/core/Profile.h"
#include "runtime/core/Trace.h"
#include "runtime/data/Inputs.h"
#include "runtime/program/calls/Matmuls.h"
#include "runtime/program/reports/Diagnosis.h"

#include <algorithm>
#include <cstring>

namespace shale::rt {

int findName(const char *const *names, int count, const char *name) {
  for (int i = 0; i < count; ++i)
    if (std::strcmp(names[i], name) == 0)
      return i;
  return -1;
}

LoadedProgram::LoadedProgram(ShaleRank &rank)
    : self(rank), program(*rank.program), device(*rank.device), ownState(program, device),
      ownArena(device.allocate(SHALE_SPACE_DEVICE, program.arena_bytes, "the arena")),
      hostArena(device.allocate(SHALE_SPACE_HOST, program.host_arena_bytes, "the host's arena")) {
  self.hostState = ownState.hostData();
  self.hostArena = hostArena->data();
  placeConstants();
  placeValues();
  for (int h = 0; h < program.hyper_count; ++h)
    if (program.hyper[h].source == SHALE_HYPER_PREVIOUS_ENABLE)
      previousEnable = h;
  enable = findName(program.metrics, program.metric_count, "enable");
}

void LoadedProgram::placeConstants() {
  if (program.constant_bytes > 0 && !device.sharesMemory()) {
    constants = device.allocate(SHALE_SPACE_DEVICE, program.constant_bytes, "constants");
    device.write(constants->data(), program.constants, program.constant_bytes);
  }
  self.constants = constants ? constants->data() : program.constants;
}

void LoadedProgram::placeValues() {
  auto aligned = [](int64_t bytes) { return (bytes + 63) / 64 * 64; };
  std::vector<int64_t> offsets;
  for (int i = 0; i < program.input_count; ++i) {
    offsets.push_back(hyperOffset);
    hyperOffset +=
        aligned(elementsOf(program.inputs[i]) * sizeOf(static_cast<Dtype>(program.inputs[i].type)));
  }
  bool onHost = program.host_state_bytes > 0 || program.host_arena_bytes > 0;
  values.emplace(device, hyperOffset + program.hyper_count * int64_t(sizeof(float)), onHost);
  auto addresses = [&](char *start) {
    std::vector<void *> list;
    for (int64_t offset : offsets)
      list.push_back(start + offset);
    return list;
  };
  for (int slot = 0; slot < values->count(); ++slot)
    inputs[slot] = addresses(values->at(slot));
  inputsOfFunctions = addresses(values->compiled());
  int32_t most = std::max(program.metric_count, program.eval_metric_count);
  results.emplace(device, most * int64_t(sizeof(float)));
  if (char *mirror = values->mirror()) {
    inputsOnHost = addresses(mirror);
    self.hostInputs = inputsOnHost.data();
    self.hostHyper = reinterpret_cast<float *>(mirror + hyperOffset);
  }
}

WatchedBlocks LoadedProgram::blocks() const {
  return {ownState.deviceData(), ownState.hostData(), ownArena->data(), hostArena->data()};
}

std::vector<const Memory *> LoadedProgram::ofCollectives() const {
  return {&ownState.deviceMemory(), ownArena.get(), &results->memory()};
}

LoadedProgram::Values LoadedProgram::next() {
  int slot = values->next();
  return {inputs[slot].data(), reinterpret_cast<float *>(values->at(slot) + hyperOffset)};
}

void LoadedProgram::call(ShaleFunction function, bool follows) {
  values->push(follows ? resultAt(enable) : nullptr,
               hyperOffset + previousEnable * int64_t(sizeof(float)));
  bool observed = self.observer || tracing() || profiling();
  device.call(function, observed, [this, function] { callDirectly(function); });
}

void LoadedProgram::callDirectly(ShaleFunction function) {
  function(&self, ownState.deviceData(), ownArena->data(), inputsOfFunctions.data(),
           reinterpret_cast<float *>(values->compiled() + hyperOffset),
           reinterpret_cast<float *>(results->compiled()));
}

std::vector<Matmul> LoadedProgram::matmuls() {
  return listMatmuls(self, [&] {
    for (ShaleFunction function :
         {program.accumulate_first, program.accumulate_next, program.step, program.evaluate})
      if (function)
        callDirectly(function);
  });
}

std::string LoadedProgram::nameOf(const void *at) const {
  auto *place = static_cast<const char *>(at);
  auto isIn = [&](const char *begin, int64_t bytes) {
    return begin && place >= begin && place < begin + bytes;
  };
  const char *blocks[] = {ownState.deviceData(), ownState.hostData()};
  const int64_t sizes[] = {program.state_bytes, program.host_state_bytes};
  for (int b = 0; b < 2; ++b)
    if (isIn(blocks[b], sizes[b])) {
      int64_t offset = place - blocks[b] + (b == 0 ? 0 : sizes[0]);
      std::string names;
      // A call may read a whole group.
      for (int32_t s = 0; s < program.state_count; ++s) {
        const ShaleState &one = program.states[s];
        int64_t bytes = one.local_count * sizeOf(static_cast<Dtype>(one.type));
        if (offset >= one.offset && offset < one.offset + bytes)
          names = nonFiniteIn(one);
      }
      return names;
    }
  for (int32_t i = 0; i < program.input_count; ++i) {
    const ShaleInput &input = program.inputs[i];
    int64_t bytes = elementsOf(input) * sizeOf(static_cast<Dtype>(input.type));
    if (isIn(static_cast<const char *>(inputsOfFunctions[i]), bytes) ||
        (!inputsOnHost.empty() && isIn(static_cast<const char *>(inputsOnHost[i]), bytes)))
      return format("input '%s'", input.name);
  }
  if (isIn(static_cast<const char *>(self.constants), program.constant_bytes))
    return "a constant of the model";
  return "";
}

/// Names the first parameter of a state that holds a value that is not finite.
std::string LoadedProgram::nonFiniteIn(const ShaleState &one) const {
  for (const Piece &piece : localPieces(program, self.rank)) {
    int64_t bytes = one.local_count * sizeOf(static_cast<Dtype>(one.type));
    if (piece.offset < one.offset || piece.offset >= one.offset + bytes)
      continue;
    std::vector<char> data(piece.bytes());
    ownState.read(piece.offset, data.data(), piece.bytes());
    if (worstOf(data.data(), piece.end - piece.begin, static_cast<int32_t>(piece.type)) !=
        Badness::Finite)
      return format("parameter '%s' (%s)", program.parameters[piece.parameter].name,
                    roleName(program, piece.role));
  }
  return format("group '%s'", program.groups[one.group].name);
}

} // namespace shale::rt
