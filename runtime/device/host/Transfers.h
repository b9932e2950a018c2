// Copies between device and host memory. On the host device both are RAM. A separate
// thread copies, so that data is missing if the program does not wait for it.
#ifndef SHALE_RUNTIME_DEVICE_HOST_TRANSFERS_H
#define SHALE_RUNTIME_DEVICE_HOST_TRANSFERS_H

#include "shale/Runtime.h"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace shale::rt {

class Transfers {
public:
  /// Prepares for the program's copies, each of which may be in flight at most once.
  explicit Transfers(const ShaleProgram &program);
  ~Transfers();
  /// Starts copy number `index` of the program, below transfer_count.
  void start(int32_t index, void *target, const void *source, int64_t bytes);
  /// Returns when the copy is complete.
  void wait(int32_t index);

private:
  struct Request {
    int32_t index;
    void *target;
    const void *source;
    int64_t bytes;
  };
  void work();
  void copy(const Request &request) const;

  const ShaleProgram &program;
  std::mutex mutex;
  std::condition_variable posted, finished;
  std::vector<Request> ring; // with room for every copy
  size_t head = 0, queued = 0;
  std::vector<char> busy; // by index
  bool ending = false;
  std::thread thread; // only when there is something to copy
};

} // namespace shale::rt

#endif
