// Messages between ranks: who waits for them, and the memory of what describes them.
#ifndef SHALE_RUNTIME_COMM_MESH_MESSAGES_H
#define SHALE_RUNTIME_COMM_MESH_MESSAGES_H

#include <condition_variable>
#include <cstddef>
#include <memory_resource>
#include <mutex>
#include <vector>

namespace shale::rt {

/// Returns the memory of what describes messages. It is kept for the next ones, so that a step
/// allocates nothing.
std::pmr::memory_resource *messageMemory();

/// Who waits for the transfers of one buffer, and which of them are complete.
struct Awaited {
  /// Counts a transfer that begins.
  void begin();
  /// Counts a transfer with a rank as complete.
  void complete(bool isSent, int rank);

  std::mutex mutex;
  std::condition_variable changed;
  std::pmr::vector<int> sent{messageMemory()}, received{messageMemory()}; // ranks of complete
                                                                          // transfers that were not
                                                                          // waited for
  size_t pending = 0; // transfers that are not complete
  bool aborted = false;
};

} // namespace shale::rt

#endif
