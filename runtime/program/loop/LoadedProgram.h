// A program in the memory of a rank's device.
#ifndef SHALE_RUNTIME_PROGRAM_LOOP_LOADEDPROGRAM_H
#define SHALE_RUNTIME_PROGRAM_LOOP_LOADEDPROGRAM_H

#include "runtime/core/Rank.h"
#include "runtime/device/Slots.h"
#include "runtime/device/State.h"
#include "runtime/program/reports/BufferPlaces.h"

#include <optional>
#include <string>
#include <vector>

namespace shale::rt {

/// Index of a metric by name; -1 when the program has none.
int findName(const char *const *names, int count, const char *name);

/// Owns the memory of a program on one rank, and calls the program's functions on it.
class LoadedProgram {
public:
  /// Allocates the memory, and tells `rank` what compiled code needs to know of it. The device of
  /// `rank` is set. Fails with exit code 78 if there is no room.
  explicit LoadedProgram(ShaleRank &rank);

  ShaleRank &rank() const { return self; }
  State &state() { return ownState; }
  const Memory &arena() const { return *ownArena; }
  WatchedBlocks blocks() const;
  /// Returns the blocks that hold operands of collectives.
  std::vector<const Memory *> ofCollectives() const;
  /// Names the parameter, input or constant that an address is in; "" if it is in none. Of a group
  /// it names the first parameter with a value that is not finite.
  std::string nameOf(const void *at) const;

  /// The values of one call, in memory of the process.
  struct Values {
    void *const *inputs; // by input
    float *hyper;        // by hyper-parameter
  };
  /// Returns the values to fill for the next call. Waits until the device has copied what was
  /// there.
  Values next();
  /// Enqueues a compiled function on the values that were filled last. With `follows` it gets the
  /// metric `enable` of the call before as a setting, by a copy on the device.
  void call(ShaleFunction function, bool follows = false);
  /// Whether a call can follow another one.
  bool passesEnable() const { return previousEnable >= 0 && enable >= 0; }
  /// Enqueues the copy of the metrics that the last call has returned.
  void pull() { results->pull(); }
  /// Waits for the metrics of the first pull() that were not read. They stay until the second
  /// pull() after theirs.
  const float *read() { return reinterpret_cast<const float *>(results->read()); }
  /// Returns the address to which compiled functions write a metric.
  const char *resultAt(int metric) const { return results->compiled() + metric * sizeof(float); }
  /// Returns the matmuls of all functions, in the order of their calls, without running them.
  std::vector<Matmul> matmuls();

private:
  void placeConstants();
  /// Places inputs, hyper-parameters and metrics in memory.
  void placeValues();
  void callDirectly(ShaleFunction function);
  std::string nonFiniteIn(const ShaleState &state) const;

  ShaleRank &self;
  const ShaleProgram &program;
  Device &device;
  State ownState;
  std::unique_ptr<Memory> ownArena, hostArena;
  std::unique_ptr<Memory> constants;  // unless the device shares the host's memory
  std::optional<ValueSlots> values;   // inputs, then hyper-parameters
  std::optional<ResultSlots> results; // metrics
  std::vector<void *> inputs[2];      // by slot of `values`
  std::vector<void *> inputsOfFunctions, inputsOnHost;
  int64_t hyperOffset = 0;     // bytes into `values`
  int32_t previousEnable = -1; // index of this hyper-parameter; -1: the program has none
  int enable = -1;             // index of this metric; -1: the program has none
};

} // namespace shale::rt

#endif
