// Work in which a rank may wait for its storage for any time, and the others for that rank.
#ifndef SHALE_RUNTIME_CORE_STORAGEWAIT_H
#define SHALE_RUNTIME_CORE_STORAGEWAIT_H

#include <string>
#include <utility>

namespace shale::rt {

/// While it exists, this thread's waits for other ranks last as long as all of them answer: only a
/// rank that is lost ends them, not --comm-timeout. What a file system does not complete is no
/// fault of a rank, and does not end the run. `what` names the work in messages: "the save of step
/// 300".
class StorageWait {
public:
  explicit StorageWait(std::string what) : what(std::move(what)), outer(current) { current = this; }
  ~StorageWait() { current = outer; }
  StorageWait(const StorageWait &) = delete;
  StorageWait &operator=(const StorageWait &) = delete;

  /// Returns what this thread is at; null if its waits are bounded.
  static const std::string *ofThread() { return current ? &current->what : nullptr; }

private:
  static inline thread_local StorageWait *current = nullptr;
  std::string what;
  StorageWait *outer;
};

} // namespace shale::rt

#endif
