// Locks an output folder, by flock() or by a file that names the process.
#include "runtime/program/launch/FolderLock.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Process.h"
#include "runtime/program/launch/RunId.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <sstream>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shale::rt {

namespace {
/// A process, on all hosts and over their restarts, and the run that it belongs to.
struct Owner {
  std::string host;
  std::string boot, space; // the boot and the space of process numbers in which `pid` is valid
  long pid = 0;
  std::string start; // in ticks after the boot: a number is used again
  std::string run;   // by its launcher; "": it has no name
};

Owner thisProcess() {
  Owner own;
  char host[256] = "", space[PATH_MAX] = "";
  gethostname(host, sizeof(host) - 1);
  if (readlink("/proc/self/ns/pid", space, sizeof(space) - 1) < 0)
    space[0] = '\0';
  own.host = host;
  own.boot = bootId();
  own.space = space;
  own.pid = getpid();
  own.start = startOf(getpid());
  own.run = runId();
  return own;
}

std::string textOf(const Owner &owner) {
  return format("%s\n%s\n%s\n%ld\n%s\n%s\n", owner.host.c_str(), owner.boot.c_str(),
                owner.space.c_str(), owner.pid, owner.start.c_str(), owner.run.c_str());
}

Owner parse(const std::string &text) {
  Owner owner;
  std::string pid;
  std::istringstream lines(text);
  std::getline(lines, owner.host);
  std::getline(lines, owner.boot);
  std::getline(lines, owner.space);
  std::getline(lines, pid);
  std::getline(lines, owner.start);
  std::getline(lines, owner.run);
  owner.pid = std::strtol(pid.c_str(), nullptr, 10);
  return owner;
}

/// "process 4711 of host 'node1' (Slurm job 17)", or "another run" if the owner is not known.
std::string nameOf(const Owner &owner) {
  if (owner.host.empty() || owner.pid <= 0)
    return "another run";
  std::string run = owner.run.empty() ? "" : " (" + printable(owner.run) + ")";
  return format("process %ld of host '%s'%s", owner.pid, printable(owner.host).c_str(),
                run.c_str());
}

/// Whether it is proved that the process has ended. Processes of other hosts, and those of before a
/// restart, which may be another host of the same name, are not known.
bool isGone(const Owner &owner) {
  Owner own = thisProcess();
  if (owner.pid <= 0 || owner.pid > INT_MAX || owner.start.empty() || owner.host != own.host ||
      owner.boot != own.boot || own.boot.empty() || owner.space != own.space || own.space.empty())
    return false;
  bool ended = kill(static_cast<pid_t>(owner.pid), 0) != 0 && errno == ESRCH;
  return ended || startOf(static_cast<pid_t>(owner.pid)) != owner.start;
}

constexpr int64_t mostOfOwner = 4096; // bytes of .owner, and of .lock

/// ": process .." as far as a locked file tells it.
std::string holderOf(const std::string &lockPath) {
  std::string text, trouble;
  attempt(trouble, [&] { text = readText(lockPath, mostOfOwner); });
  Owner owner = parse(text);
  return owner.pid > 0 && !owner.host.empty() ? ": " + nameOf(owner) : "";
}
} // namespace

FolderLock::FolderLock(const std::string &folder)
    : folder(folder), lockPath(folder + "/.lock"), ownerPath(folder + "/.owner") {
  lock = openRegular(lockPath, O_RDWR | O_CREAT | O_NOFOLLOW);
  try {
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
      // A run on a host that cannot lock this folder may use it.
      if (exists(ownerPath))
        own();
      sign();
      return;
    }
    int error = errno;
    if (error == EWOULDBLOCK)
      fail(SHALE_EXIT_USAGE, "another run is using '%s'%s; end it or pass another --out",
           printable(folder).c_str(), holderOf(lockPath).c_str());
    own();
    warn("the file system of '%s' cannot lock files (%s): the file .owner in it, with host and "
         "process, keeps other runs out",
         printable(folder).c_str(), strerror(error));
  } catch (const Error &) {
    release();
    throw;
  }
}

/// Makes .owner. Takes over that of a process which is gone.
void FolderLock::own() {
  std::string mine = textOf(thisProcess());
  for (int attempt = 0; attempt < 2; ++attempt) {
    int fd = open(ownerPath.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    if (fd >= 0) {
      owned = true;
      ssize_t n = write(fd, mine.data(), mine.size());
      int error = n < 0 ? errno : ENOSPC;
      bool isWhole = n == static_cast<ssize_t>(mine.size()) && fsync(fd) == 0;
      if (close(fd) == 0 && isWhole)
        return;
      fail(SHALE_EXIT_IO, "cannot write '%s': %s", printable(ownerPath).c_str(), strerror(error));
    }
    if (errno != EEXIST)
      fail(SHALE_EXIT_IO, "cannot write '%s': %s", printable(ownerPath).c_str(), strerror(errno));
    std::string text = readText(ownerPath, mostOfOwner);
    Owner other = parse(text);
    if (attempt > 0 || !isGone(other))
      fail(
          SHALE_EXIT_USAGE,
          "%s may be using '%s', whose file system cannot lock files: end that run or pass another "
          "--out; if it is gone, remove '%s'",
          nameOf(other).c_str(), printable(folder).c_str(), printable(ownerPath).c_str());
    // Several runs may find the same file. One of them renames it first.
    std::string taken = temporaryName(ownerPath);
    if (rename(ownerPath.c_str(), taken.c_str()) != 0)
      continue;
    // It may be the first one's by now: that is given back, unless a third has it.
    if (readText(taken, mostOfOwner) != text) {
      if (link(taken.c_str(), ownerPath.c_str()) != 0 && errno != EEXIST)
        rename(taken.c_str(), ownerPath.c_str());
    }
    unlink(taken.c_str());
  }
}

/// Writes into the locked file who has it, for the message of another run. The lock holds without.
void FolderLock::sign() {
  std::string mine = textOf(thisProcess());
  isSigned = ftruncate(lock, 0) == 0 &&
             pwrite(lock, mine.data(), mine.size(), 0) == static_cast<ssize_t>(mine.size());
}

void FolderLock::release() {
  if (owned)
    unlink(ownerPath.c_str());
  if (isSigned && ftruncate(lock, 0) != 0)
    warn("cannot clear '%s': %s", printable(lockPath).c_str(), strerror(errno));
  if (lock >= 0)
    close(lock);
  isSigned = false;
  owned = false;
  lock = -1;
}

FolderLock::~FolderLock() {
  // The folder may be another run's by now, if this one was removed.
  if (!isThere())
    owned = false;
  release();
}

bool FolderLock::isThere() const {
  struct stat own, there;
  return fstat(lock, &own) == 0 && stat(lockPath.c_str(), &there) == 0 &&
         own.st_ino == there.st_ino && own.st_dev == there.st_dev && (!owned || exists(ownerPath));
}

} // namespace shale::rt
