// A limit of time for calls that have none of their own.
#ifndef SHALE_RUNTIME_CORE_TIMELIMIT_H
#define SHALE_RUNTIME_CORE_TIMELIMIT_H

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace shale::rt {

/// Calls a function in a thread if the object lives longer than some seconds.
class TimeLimit {
public:
  TimeLimit(double seconds, std::function<void()> exceeded)
      : thread([this, seconds, exceeded = std::move(exceeded)] {
          std::unique_lock<std::mutex> lock(mutex);
          if (!ended.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over; }))
            exceeded();
        }) {}
  ~TimeLimit() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      over = true;
    }
    ended.notify_all();
    thread.join();
  }
  TimeLimit(const TimeLimit &) = delete;

private:
  std::mutex mutex;
  std::condition_variable ended;
  bool over = false;
  std::thread thread; // last: it uses the others
};

} // namespace shale::rt

#endif
