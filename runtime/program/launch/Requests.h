// What a signal means: a request to end, the same request again, or an end at once.
//
// Service managers, schedulers and shells send a signal to every process of a run, and launchers
// forward it, so that a process gets one request several times, from several senders. Decided here
// without clocks and system calls.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCH_REQUESTS_H
#define SHALE_RUNTIME_PROGRAM_LAUNCH_REQUESTS_H

#include <csignal>
#include <cstdint>

namespace shale::rt {

enum class Sender {
  Terminal, // the kernel, for a terminal: a key, or its end
  Parent,   // the process that has started this one
  Launcher, // Shale's launcher, which has decided that the run ends at once
  Other
};

struct Received {
  int signal;
  int64_t at; // milliseconds of a clock that only goes forward
  Sender sender;
};

enum class Meaning {
  Request, // the first one: finish the step and save
  Same,    // another copy of it
  EndNow   // the sender does not want to wait
};

class Requests {
public:
  /// Copies of a request arrive within this time.
  static constexpr int64_t kSame = 2000;

  /// Returns what a signal means after those before it. Within kSame of the request every signal is
  /// a copy of it, but a second Ctrl-C of the terminal. Later, the same signal is a copy if it is
  /// the first from the parent, or the first from elsewhere.
  Meaning take(const Received &received);

private:
  int signal = 0; // of the request; 0: there was none
  int64_t since = 0;
  bool fromParent = false, fromElsewhere = false, byKey = false;
};

/// The value that Shale's launcher queues with a signal that ends a rank at once.
constexpr int kEndNow = 0x5348454e;

/// Who has sent a signal; `parent` is the parent of this process.
Sender senderOf(const siginfo_t &info, pid_t parent);

} // namespace shale::rt

#endif
