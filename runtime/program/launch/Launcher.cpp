// The launcher behind --nproc: fork, set the environment, exec; then wait.
#include "runtime/program/launch/Launcher.h"
#include "runtime/checkpoint/Checkpoint.h"
#include "runtime/comm/Rendezvous.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/device/host/Host.h"
#include "runtime/program/launch/Restarts.h"
#include "runtime/program/launch/Signals.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace shale::rt {

namespace {
using Clock = std::chrono::steady_clock;

struct Child {
  pid_t pid;
  bool running;
};

/// Sets GLIBC_TUNABLES, which glibc reads before main. Returns false if the environment
/// sets the tcache already.
bool switchCachesOff() {
  const char *before = std::getenv("GLIBC_TUNABLES");
  std::string tunables = before ? before : "";
  if (tunables.find("glibc.malloc.tcache_count=") != std::string::npos)
    return false;
  tunables += std::string(tunables.empty() ? "" : ":") + "glibc.malloc.tcache_count=0";
  return setenv("GLIBC_TUNABLES", tunables.c_str(), 1) == 0;
}

/// Sets the environment of a rank. libgomp reads OMP_NUM_THREADS when it is loaded, so
/// the variable has to be set before exec.
void setEnvironment(int rank, int count, int restart) {
  setenv("SHALE_RESTART_COUNT", std::to_string(restart).c_str(), 1);
  setenv("SHALE_RANK", std::to_string(rank).c_str(), 1);
  std::string threads = std::to_string(std::max(1, availableCpus() / count));
  setenv("OMP_NUM_THREADS", threads.c_str(), 0);
  setenv("OMP_DYNAMIC", "false", 0);
  switchCachesOff();
  // Ranks that share cores must not spin while others work.
  if (count > availableCpus())
    setenv("OMP_WAIT_POLICY", "passive", 0);
}

pid_t startRank(int rank, int count, char **argv, int restart) {
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid != 0)
    return pid;
  // A separate process group: a terminal's Ctrl-C reaches the launcher only, which
  // forwards it once.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(SHALE_EXIT_PEER);
  // Signals that request an exit stay blocked: the rank waits for them.
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_UNBLOCK, &child, nullptr);
  setEnvironment(rank, count, restart);
  execv("/proc/self/exe", argv);
  _exit(SHALE_EXIT_INTERNAL);
}

int codeOf(int status) {
  if (WIFEXITED(status))
    return WEXITSTATUS(status);
  switch (WTERMSIG(status)) {
  case SIGKILL:
  case SIGTERM:
  case SIGHUP:
    return SHALE_EXIT_PEER;
  default:
    return SHALE_EXIT_INTERNAL;
  }
}

/// Whether another start may succeed: after a crash, or if a rank or its host was lost.
bool mayRecover(int code) { return code == SHALE_EXIT_PEER || code == SHALE_EXIT_INTERNAL; }

/// Whether all ranks are expected to end with this code together.
bool orderly(int code) {
  return code == SHALE_EXIT_OK || code == SHALE_EXIT_PREEMPTED || code == SHALE_EXIT_INTERRUPTED ||
         code == SHALE_EXIT_NON_FINITE;
}

class Watch {
public:
  Watch(std::vector<Child> &children) : children(children) {}

  int run(const sigset_t &set) {
    while (anyRunning()) {
      timespec pause{0, 100'000'000};
      siginfo_t info;
      if (sigtimedwait(&set, &info, &pause) > 0 && info.si_signo != SIGCHLD)
        obey(info);
      reap();
      if (result != 0 && !killed && Clock::now() > deadline) {
        forward(SIGKILL, 0);
        killed = true;
      }
    }
    return result;
  }
  /// Whether a signal has asked for the end of the run.
  bool wasStopped() const { return stopped; }

private:
  bool anyRunning() const {
    for (const Child &child : children)
      if (child.running)
        return true;
    return false;
  }
  /// Forwards a request once, however often it arrives: ranks may get copies of their own.
  void obey(const siginfo_t &info) {
    Meaning meaning = take(info);
    if (meaning == Meaning::Same)
      return;
    stopped = true;
    bool now = meaning == Meaning::EndNow;
    forward(info.si_signo, now ? kEndNow : 0);
    if (now) {
      result = 128 + info.si_signo;
      deadline = Clock::now() + std::chrono::seconds(1);
    }
  }
  /// `value`: queued with the signal, unless it is 0.
  void forward(int signal, int value) {
    for (const Child &child : children)
      if (child.running && (value == 0 || sigqueue(child.pid, signal, sigval{value}) != 0))
        kill(child.pid, signal);
  }
  void reap() {
    for (size_t r = 0; r < children.size(); ++r) {
      int status = 0;
      Child &child = children[r];
      if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid)
        continue;
      child.running = false;
      if (killed)
        continue; // killed by the launcher
      if (WIFSIGNALED(status))
        complain("error", format("rank %zu (pid %d) was ended by signal %d (%s)%s", r,
                                 (int)child.pid, WTERMSIG(status), strsignal(WTERMSIG(status)),
                                 WTERMSIG(status) == SIGKILL
                                     ? ": by a user, or because the machine is out of memory"
                                     : ""));
      note(codeOf(status));
    }
  }
  void note(int code) {
    if (code == SHALE_EXIT_OK)
      return;
    if (result == 0) {
      result = code;
      // Peers of a failed rank notice the failure themselves; give them time to report
      // it.
      deadline =
          Clock::now() + (orderly(code) ? std::chrono::seconds(60) : std::chrono::seconds(1));
    } else if (result == SHALE_EXIT_PEER && code != SHALE_EXIT_PEER) {
      result = code;
    }
  }
  std::vector<Child> &children;
  int result = 0;
  bool killed = false, stopped = false;
  Clock::time_point deadline;
};
} // namespace

void executeWithoutCaches(char **argv, int localRanks) {
  // glibc ignores tunables in setuid programs.
  if (getauxval(AT_SECURE) != 0 || !switchCachesOff())
    return;
  if (localRanks > availableCpus())
    setenv("OMP_WAIT_POLICY", "passive", 0);
  setenv("OMP_DYNAMIC", "false", 0);
  execv("/proc/self/exe", argv);
}

/// Starts all ranks and waits for them. `stopped`: whether a signal has asked for the end.
static int runRanks(int count, char **argv, int restart, const sigset_t &set, bool &stopped) {
  setRunEnvironment(count);
  std::vector<Child> children;
  for (int r = 0; r < count; ++r) {
    pid_t pid = startRank(r, count, argv, restart);
    if (pid < 0) {
      int error = errno;
      for (const Child &child : children) {
        kill(child.pid, SIGKILL);
        waitpid(child.pid, nullptr, 0);
      }
      fail(error == EAGAIN || error == ENOMEM ? SHALE_EXIT_NO_FIT : SHALE_EXIT_INTERNAL,
           "cannot start rank %d of %d: %s%s", r, count, strerror(error),
           error == EAGAIN ? ": raise the limit of processes (ulimit -u), or that of the container"
                           : "");
    }
    children.push_back({pid, true});
  }
  Watch watch(children);
  int code = watch.run(set);
  stopped = watch.wasStopped();
  return code;
}

/// Returns the step of the newest checkpoint; -1 if there is none.
static int64_t newestStep(const std::string &out) {
  std::vector<std::string> folders = listCheckpoints(out);
  if (folders.empty())
    return -1;
  std::string name = baseName(folders.back());
  return std::strtoll(name.c_str() + name.find('-') + 1, nullptr, 10);
}

/// Waits before the ranks start again. Returns the exit code for a signal that arrives meanwhile,
/// or 0.
static int pauseFor(int seconds) {
  sigset_t set = exitSignals();
  for (auto end = Clock::now() + std::chrono::seconds(seconds);;) {
    auto left = std::max(Clock::duration::zero(), end - Clock::now());
    int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    timespec most{static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
    siginfo_t info;
    if (sigtimedwait(&set, &info, &most) > 0 && take(info) != Meaning::Same)
      return exitCodeOf(info.si_signo);
    if (ns == 0)
      return 0;
  }
}

int launchRanks(int count, char **argv, int restarts, const std::string &out) {
  sigset_t set = exitSignals();
  sigaddset(&set, SIGCHLD);
  sigprocmask(SIG_BLOCK, &set, nullptr);
  Restarts allowed(restarts, newestStep(out));
  for (int start = 0;; ++start) {
    bool stopped = false;
    int code = runRanks(count, argv, start, set, stopped);
    if (stopped || !mayRecover(code))
      return code;
    std::optional<int> pause = allowed.next(newestStep(out));
    if (!pause)
      return code;
    std::string when = *pause == 0 ? "" : format(" in %d s", *pause);
    warn("the ranks ended with code %d and start again from the newest checkpoint%s: restart %d of "
         "%d",
         code, when.c_str(), allowed.count(), restarts);
    if (int stop = pauseFor(*pause)) {
      complain("note", "stopped by a signal before the ranks started again");
      return stop;
    }
  }
}

} // namespace shale::rt
