// Saves while training goes on: the state is copied between two steps, and a thread writes the
// copy.
//
// The writers of all ranks talk over connections of their own (Connection::writers), so that their
// exchanges do not mix with those of the training threads. Each writer runs saveCheckpoint() on the
// copy: files, their bytes and the order in which they become complete are those of a save for
// which training waits. All ranks start saves at the same steps and wait for the one before.
#ifndef SHALE_RUNTIME_CHECKPOINT_BACKGROUNDSAVE_H
#define SHALE_RUNTIME_CHECKPOINT_BACKGROUNDSAVE_H

#include "runtime/checkpoint/StateLayout.h"
#include "runtime/device/State.h"

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace shale::rt {

/// A copy of what a rank writes to a checkpoint, in host memory.
class StateCopy final : public StateReader {
public:
  /// `form` is --checkpoint's value. Allocates bytesFor() bytes; fails with exit code 78 if there
  /// is no room. A thread writes to each page, so that the system provides the memory while the
  /// program starts and not during the first copy, which took seven times as long as the next one.
  StateCopy(const ShaleProgram &program, int rank, const std::string &form, Device &device);
  ~StateCopy() override;
  /// Returns the bytes of a rank's copy.
  static int64_t bytesFor(const ShaleProgram &program, int rank, const std::string &form);

  /// Copies the state. No save may read the copy meanwhile.
  void take(const State &state);
  /// Reads from the copy. Fails with exit code 70 for a range that a save of this rank does not
  /// read.
  void read(int64_t offset, void *target, int64_t bytes) const override;

private:
  /// Bytes [begin, end) of the state are at `at` of the copy.
  struct Range {
    int64_t begin, end, at;
  };
  static std::vector<Range> rangesOf(const ShaleProgram &program, int rank,
                                     const std::string &form);

  std::vector<Range> ranges; // ascending, apart from each other
  std::unique_ptr<Memory> memory;
  std::thread provider;
};

class BackgroundSave {
public:
  explicit BackgroundSave(std::unique_ptr<StateCopy> copy) : copy(std::move(copy)) {}
  /// Waits for the writer.
  ~BackgroundSave();

  /// Copies the state and starts a thread that runs `write` on the copy. No save may be in flight.
  void start(const State &state, std::function<void(const StateReader &)> write);
  bool inFlight() const { return thread.joinable(); }
  /// Whether the save in flight is complete, or has failed.
  bool isWritten() const { return written; }
  /// Waits for the save in flight, and throws what `write` has thrown. Returns the seconds that it
  /// waited.
  double finish();

private:
  std::unique_ptr<StateCopy> copy;
  std::atomic<bool> written{false};
  std::exception_ptr error; // written by the thread, read after it has ended
  std::thread thread;
};

} // namespace shale::rt

#endif
