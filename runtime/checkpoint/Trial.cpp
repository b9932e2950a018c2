// Tries each operation of a save with small files.
#include "runtime/checkpoint/Trial.h"
#include "runtime/checkpoint/Folders.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace shale::rt {

namespace {
/// As long as the longest name in a checkpoint, and what is added to it while it is written.
constexpr size_t longestName = 64;

std::string padded(std::string name) {
  name.resize(longestName, '-');
  return name;
}

/// Returns what to do about an error of a file system.
const char *remedyFor(int error) {
  switch (error) {
  case ENAMETOOLONG:
    return "the paths of checkpoints are too long for the file system: pass a shorter --out";
  case ENOSPC:
    return "the disk is full: free space on it, or pass --out on another one";
  case EDQUOT:
    return "your quota is used up: remove files, or pass --out on another disk";
  case EROFS:
    return "the file system is read-only: pass another --out";
  case EACCES:
  case EPERM:
    return "the user of the run has no right to do that: change the rights of the folder, or pass "
           "another --out";
  case ENOENT:
  case ENOTDIR:
  case ESTALE:
    return "the folder of rank 0 is not there: all ranks need the same --out, on a file system that "
           "all hosts share";
  case EMLINK:
  case EMFILE:
  case ENFILE:
    return "a limit of the system is reached: raise it, or pass another --out";
  default:
    return "the file system cannot do what saving needs: pass --out on another one";
  }
}

/// Runs one operation, which sets errno. Throws Error if it fails.
void need(bool done, const char *what, const std::string &path) {
  if (int error = errno; !done)
    fail(SHALE_EXIT_IO, "saving would fail: cannot %s '%s': %s; %s", what,
         printable(path, 400).c_str(), strerror(error), remedyFor(error));
}

void writeSmall(const std::string &path, const std::string &text) {
  int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  need(fd >= 0, "create", path);
  errno = ENOSPC; // a write of fewer bytes does not set it
  bool done =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  int error = errno;
  bool closed = close(fd) == 0;
  errno = done ? errno : error;
  need(done && closed, "write", path);
}

/// Removes the folder and what ranks have written to it, by the calls of a save.
void removeTrial(const std::string &folder) {
  for (const std::string &name : listFolder(folder)) {
    std::string path = folder + "/" + name;
    need(unlink(path.c_str()) == 0, "remove", path);
  }
  need(rmdir(folder.c_str()) == 0, "remove folder", folder);
}

/// A trial on one rank. Each function is one step; all ranks finish one before the next begins.
class Trial {
public:
  Trial(int rank, const std::string &out, int64_t steps, int64_t token)
      : rank(rank), token(std::to_string(token)), folder(trialFolder(out, steps)),
        renamed(folder + "2") {}

  /// Rank 0 makes the folder with a file that other ranks recognize.
  void make() {
    if (rank != 0)
      return;
    makeFolders(parentOf(folder));
    need(mkdir(folder.c_str(), 0777) == 0, "make folder", folder);
    writeSmall(folder + "/" + token, token);
  }
  void write() {
    std::string path = folder + "/" + token;
    struct stat info;
    need(stat(path.c_str(), &info) == 0, "find", path);
    writeSmall(folder + "/" + padded(format("shard-%05d", rank)), token);
  }
  void finish() {
    if (rank != 0)
      return;
    need(rename(folder.c_str(), renamed.c_str()) == 0, "rename", folder);
    syncFolder(parentOf(folder));
    removeTrial(renamed);
  }
  /// A run that saves nothing leaves nothing.
  void clear() {
    if (rank != 0)
      return;
    for (const std::string &path : {folder, renamed})
      if (exists(path))
        removeTree(path);
    rmdir(parentOf(folder).c_str()); // if it is empty
  }

private:
  int rank;
  std::string token, folder, renamed;
};
} // namespace

void trySave(int rank, Peers &peers, const std::string &out, int64_t steps) {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  // A rank that finds a file with this run's token is in the folder of rank 0.
  int64_t token = peers.agree(rank == 0 ? now.tv_sec * 1'000'000'000 + now.tv_nsec : 0);
  Trial trial(rank, out, steps, token);
  for (auto step : {&Trial::make, &Trial::write, &Trial::finish}) {
    std::string trouble;
    attempt(trouble, [&] { (trial.*step)(); });
    if (peers.agree(!trouble.empty()) == 0)
      continue;
    trial.clear();
    std::vector<std::string> texts = peers.gather(trouble);
    // Rank 0 reports the trouble of the first rank that has any.
    std::string text;
    int64_t others = -1;
    for (size_t r = 0; r < texts.size(); ++r) {
      others += !texts[r].empty();
      if (text.empty() && !texts[r].empty())
        text = (r == 0 ? "" : peers.nameOf(r) + ": ") + texts[r];
    }
    if (others > 0)
      text += format(" (as on %lld more rank%s)", (long long)others, others == 1 ? "" : "s");
    // No rank ends before all texts have arrived. Ranks may end while others leave the barrier.
    try {
      peers.barrier();
    } catch (const Error &) {
    }
    throw Error(SHALE_EXIT_IO, text); // empty on other ranks than 0
  }
  trial.clear();
}

} // namespace shale::rt
