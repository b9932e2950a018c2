// The launcher behind --nproc: fork, set the environment, exec; then wait.
#include "runtime/program/Launcher.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/device/host/Host.h"

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
void setEnvironment(int rank, int count, const std::string &store) {
  setenv("SHALE_RANK", std::to_string(rank).c_str(), 1);
  setenv("SHALE_WORLD_SIZE", std::to_string(count).c_str(), 1);
  setenv("SHALE_STORE", store.c_str(), 1);
  std::string threads = std::to_string(std::max(1, availableCpus() / count));
  setenv("OMP_NUM_THREADS", threads.c_str(), 0);
  setenv("OMP_DYNAMIC", "false", 0);
  switchCachesOff();
  // Ranks that share cores must not spin while others work.
  if (count > availableCpus())
    setenv("OMP_WAIT_POLICY", "passive", 0);
}

pid_t startRank(int rank, int count, const std::string &store, char **argv, const sigset_t &mask) {
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
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  setEnvironment(rank, count, store);
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
      int signal = sigtimedwait(&set, &info, &pause);
      if (signal > 0 && signal != SIGCHLD)
        forward(signal == SIGHUP ? SIGTERM : signal);
      reap();
      if (result != 0 && !killed && Clock::now() > deadline) {
        forward(SIGKILL);
        killed = true;
      }
    }
    return result;
  }

private:
  bool anyRunning() const {
    for (const Child &child : children)
      if (child.running)
        return true;
    return false;
  }
  void forward(int signal) {
    for (const Child &child : children)
      if (child.running)
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
        complain("error", format("rank %zu was ended by signal %d (%s)", r, WTERMSIG(status),
                                 strsignal(WTERMSIG(status))));
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
  bool killed = false;
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

int launchRanks(int count, char **argv) {
  const char *temporary = std::getenv("TMPDIR");
  std::string store = std::string(temporary && *temporary ? temporary : "/tmp") + "/shale-XXXXXX";
  if (!mkdtemp(store.data()))
    fail(SHALE_EXIT_IO, "cannot make a folder '%s': %s", store.c_str(), strerror(errno));
  sigset_t set, before;
  sigemptyset(&set);
  for (int signal : {SIGCHLD, SIGTERM, SIGINT, SIGUSR1, SIGHUP})
    sigaddset(&set, signal);
  sigprocmask(SIG_BLOCK, &set, &before);
  std::vector<Child> children;
  for (int r = 0; r < count; ++r) {
    pid_t pid = startRank(r, count, store, argv, before);
    if (pid < 0) {
      int error = errno;
      for (const Child &child : children)
        kill(child.pid, SIGKILL);
      removeTree(store);
      fail(SHALE_EXIT_INTERNAL, "cannot start rank %d: %s", r, strerror(error));
    }
    children.push_back({pid, true});
  }
  int code = Watch(children).run(set);
  removeTree(store);
  return code;
}

} // namespace shale::rt
