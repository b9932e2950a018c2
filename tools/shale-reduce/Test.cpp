//===- Test.cpp - Whether a candidate still shows the fault ---------------===//
#include "tools/shale-reduce/Test.h"
#include "shale/Runtime.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/Regex.h"
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace shale;
using llvm::StringRef;
using llvm::Twine;

extern char **environ;

/// The signals that this process had blocked when it started; those that it blocks itself.
static sigset_t before, blocked;

void shale::blockSignals() {
  struct sigaction action;
  sigemptyset(&blocked);
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    if (!sigaction(signal, nullptr, &action) && action.sa_handler != SIG_IGN)
      sigaddset(&blocked, signal);
  signal(SIGCHLD, SIG_DFL); // ignored, the children's exit codes would be lost
  sigaddset(&blocked, SIGCHLD);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  // A candidate that crashes is a result: a core dump of each would fill the disk.
  struct rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
}

int shale::takeInterrupt() {
  struct timespec none = {0, 0};
  int signal;
  do
    signal = sigtimedwait(&blocked, nullptr, &none);
  while (signal == SIGCHLD);
  return signal > 0 ? signal : 0;
}

static llvm::Error cannotStart(StringRef path, const Twine &why) {
  return llvm::createStringError("cannot start the test '" + path + "': " + why);
}

llvm::Error Test::setProgram(StringRef path) {
  llvm::SmallString<128> full(path);
  if (!llvm::sys::fs::exists(full)) {
    auto found = path.contains('/') ? std::error_code(ENOENT, std::generic_category())
                                    : llvm::sys::findProgramByName(path);
    if (!found)
      return cannotStart(path, "there is no such file; give its path");
    full = *found;
  }
  if (std::error_code error = llvm::sys::fs::make_absolute(full))
    return cannotStart(path, error.message());
  if (llvm::sys::fs::is_directory(full))
    return cannotStart(path, "it is a folder");
  if (!llvm::sys::fs::can_execute(full))
    return cannotStart(path, "it is not executable; run `chmod +x " + path + "`");
  command.insert(command.begin(), full.str().str());
  return llvm::Error::success();
}

llvm::Expected<Test> Test::fromScript(StringRef path) {
  Test test;
  test.isScript = true;
  test.description = "the script exits with 0";
  if (llvm::Error error = test.setProgram(path))
    return error;
  return test;
}

llvm::Expected<Test> Test::fromOpt(StringRef program, std::vector<std::string> arguments,
                                   std::optional<std::string> expect) {
  std::string why, path = program.str();
  if (expect && !llvm::Regex(*expect).isValid(why))
    return llvm::createStringError("--expect=" + *expect + " is not a regular expression: " + why);
  if (path.empty()) {
    static int inThisProgram;
    std::string self = llvm::sys::fs::getMainExecutable(nullptr, &inThisProgram);
    auto beside = llvm::sys::findProgramByName("shale-opt", {llvm::sys::path::parent_path(self)});
    path = beside ? *beside : "shale-opt";
  }
  Test test;
  test.command = std::move(arguments);
  test.description = expect ? "shale-opt fails or crashes, and its messages match '" + *expect + "'"
                            : "shale-opt crashes";
  test.expect = std::move(expect);
  if (llvm::Error error = test.setProgram(path))
    return error;
  return test;
}

bool Test::isInteresting(int status, StringRef text) const {
  if (isScript)
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  // The system kills what needs too much memory: no crash.
  bool isCrash = (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL) ||
                 (WIFEXITED(status) && WEXITSTATUS(status) == SHALE_EXIT_INTERNAL);
  if (!expect)
    return isCrash;
  bool isFailure = isCrash || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
  return isFailure && llvm::Regex(*expect, llvm::Regex::Newline).match(text);
}

/// Starts the command as leader of a new process group. Returns an error number, or 0.
static int start(llvm::ArrayRef<std::string> command, bool isScript, const std::string &output,
                 pid_t &child) {
  std::vector<char *> arguments;
  for (const std::string &argument : command)
    arguments.push_back(const_cast<char *>(argument.c_str()));
  arguments.push_back(nullptr);
  // A crash report with symbols takes longer than the passes, and reads no better here.
  static char noSymbols[] = "LLVM_DISABLE_SYMBOLIZATION=1";
  std::vector<char *> environment;
  for (char **entry = environ; *entry; ++entry)
    environment.push_back(*entry);
  if (!isScript)
    environment.push_back(noSymbols);
  environment.push_back(nullptr);

  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 2, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (isScript)
    posix_spawn_file_actions_adddup2(&files, 2, 1);
  else // the IR
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setsigmask(&attributes, &before);
  int error =
      posix_spawn(&child, arguments[0], &files, &attributes, arguments.data(), environment.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

/// Waits until the child ends, the time is over or a signal asks to stop. Returns whether the
/// child ended; it is still to be reaped, so its number is no other process's. `interrupt` is the
/// signal.
static bool waitFor(pid_t child, unsigned seconds, int &interrupt) {
  using namespace std::chrono;
  auto end = steady_clock::now() + std::chrono::seconds(seconds);
  for (siginfo_t info = {};;) {
    if (waitid(P_PID, child, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child)
      return true;
    nanoseconds left = end - steady_clock::now();
    if (left.count() <= 0)
      return false;
    struct timespec time = {left.count() / 1000000000, left.count() % 1000000000};
    int signal = sigtimedwait(&blocked, nullptr, &time);
    if (signal > 0 && signal != SIGCHLD) {
      interrupt = signal;
      return false;
    }
  }
}

/// The last bytes of a file, from the beginning of a line.
static std::string readEnd(const std::string &path) {
  constexpr size_t most = 1 << 20;
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return "";
  StringRef text = (*buffer)->getBuffer();
  if (text.size() > most)
    text = text.take_back(most).split('\n').second;
  return text.str();
}

llvm::Expected<Outcome> Test::run(StringRef candidate, StringRef output, unsigned seconds) const {
  std::vector<std::string> all = command;
  all.push_back(candidate.str());
  pid_t child = 0;
  std::string outputFile = output.str();
  if (int error = start(all, isScript, outputFile, child))
    return cannotStart(all[0], error == ENOEXEC
                                   ? Twine("it is neither a program nor a script; a script's first "
                                           "line is, for example, #!/bin/sh")
                                   : Twine(strerror(error)));
  int status = 0;
  Outcome outcome;
  bool ended = waitFor(child, seconds, outcome.interrupt);
  kill(-child, SIGKILL); // and what it started
  waitpid(child, &status, 0);
  if (!ended) {
    outcome.timedOut = !outcome.interrupt;
    outcome.end = "did not end within " + std::to_string(seconds) + " s; see --timeout";
    return outcome;
  }
  outcome.output = readEnd(outputFile);
  outcome.isInteresting = isInteresting(status, outcome.output);
  outcome.end = WIFSIGNALED(status) ? ("was killed by signal " + Twine(WTERMSIG(status)) + " (" +
                                       strsignal(WTERMSIG(status)) + ")")
                                          .str()
                                    : "exited with " + std::to_string(WEXITSTATUS(status));
  return outcome;
}
