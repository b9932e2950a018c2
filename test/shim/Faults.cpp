// Preloaded into a program under test (LD_PRELOAD). Observes the calls that open, change, sync,
// rename or remove files, and those that connect ranks.
//
// FAULT_AT=N       ends the process with SIGKILL in place of its N-th such call, as a crash would
// FAULT_RANK=R     only in rank R; -1: in a process that is no rank. Without it: in every process
// FAULT_RENAMES=1  counts renames only
// FAULT_NO_EXCHANGE=E
//                  renameat2 with flags fails with the error of number E, as on NFS and most FUSE
// FAULT_NO_RENAME=E
//                  rename fails with the error of number E
// FAULT_NO_LOCK=E  flock fails with the error of number E, as where a file system has no locks
// FAULT_SLOW_SYNC=N  each fsync takes N ms more; with FAULT_RANK only in that rank
// FAULT_COUNT=FILE appends the number of these calls, when the process ends, as a line "RANK
//                  NUMBER"
// FAULT_JOURNAL=FILE, FAULT_ROOT=FOLDER
//                  appends a record of each change below the folder once it was made, of all
//                  processes in one order, from which test/e2e/fault/kills.py makes what a power
//                  cut leaves
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace {
template <typename F> F next(const char *name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

const char *get(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

int rankOf() { return *get("SHALE_RANK") ? std::atoi(get("SHALE_RANK")) : -1; }

struct Settings {
  long at = 0, slowSync = 0; // of this process
  std::string root, journal, count;
  std::atomic<long> calls{0};

  Settings() : root(get("FAULT_ROOT")), journal(get("FAULT_JOURNAL")), count(get("FAULT_COUNT")) {
    if (!*get("FAULT_RANK") || std::atoi(get("FAULT_RANK")) == rankOf())
      at = std::atol(get("FAULT_AT")), slowSync = std::atol(get("FAULT_SLOW_SYNC"));
  }
};

Settings &settings() {
  static auto *const all = new Settings; // never destroyed: calls come until the end
  return *all;
}

/// Writes to a file without passing through this library.
void put(const std::string &path, const iovec *parts, int count) {
  long fd = syscall(SYS_open, path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  syscall(SYS_writev, fd, parts, count);
  syscall(SYS_close, fd);
}

void countCall(bool renames = false) {
  if (!renames && *get("FAULT_RENAMES"))
    return;
  long now = ++settings().calls;
  if (now == settings().at)
    syscall(SYS_kill, getpid(), SIGKILL);
}

std::string pathOf(int fd) {
  char link[64], path[PATH_MAX];
  snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
  long n = syscall(SYS_readlink, link, path, sizeof(path));
  return std::string(path, n > 0 ? n : 0);
}

std::string pathAt(int folder, const char *path) {
  if (*path == '/')
    return path;
  char here[PATH_MAX] = "";
  return (folder == AT_FDCWD ? std::string(getcwd(here, sizeof(here)) ? here : "")
                             : pathOf(folder)) +
         "/" + path;
}

bool isFile(int fd) {
  struct stat info;
  return syscall(SYS_fstat, fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

/// Records a change that was made: its kind, two paths, an offset and data.
void record(char kind, const std::string &path, const std::string &other = "", int64_t offset = 0,
            const void *data = nullptr, size_t bytes = 0) {
  const Settings &s = settings();
  if (s.journal.empty() || (path + "/").compare(0, s.root.size() + 1, s.root + "/") != 0)
    return;
  int error = errno;
  int64_t head[5] = {kind, (int64_t)path.size(), (int64_t)other.size(), offset, (int64_t)bytes};
  iovec parts[] = {{head, sizeof(head)},
                   {const_cast<char *>(path.data()), path.size()},
                   {const_cast<char *>(other.data()), other.size()},
                   {const_cast<void *>(data), bytes}};
  put(s.journal, parts, 4);
  errno = error;
}

int opened(int folder, const char *path, int flags, mode_t mode) {
  bool changes = flags & (O_CREAT | O_TRUNC);
  countCall();
  int fd = syscall(SYS_openat, folder, path, flags, mode);
  if (fd >= 0 && changes && isFile(fd))
    record((flags & O_TRUNC) ? 'T' : 'C', pathOf(fd));
  return fd;
}

/// The runtime ends with _exit, so the number is written there.
void leave() {
  const Settings &s = settings();
  if (s.count.empty())
    return;
  char line[64];
  int n = snprintf(line, sizeof(line), "%d %ld\n", rankOf(), s.calls.load());
  iovec part{line, (size_t)n};
  put(s.count, &part, 1);
}
} // namespace

extern "C" {
int open(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return opened(AT_FDCWD, path, flags, mode);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
int openat(int folder, const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return opened(folder, path, flags, mode);
}
int openat64(int folder, const char *path, int flags, ...) __attribute__((alias("openat")));
int __open_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened(AT_FDCWD, path, flags, 0); }

ssize_t write(int fd, const void *data, size_t bytes) {
  bool file = fd > 2 && isFile(fd);
  if (file)
    countCall();
  ssize_t n = syscall(SYS_write, fd, data, bytes);
  if (file && n > 0)
    record('W', pathOf(fd), "", syscall(SYS_lseek, fd, 0, SEEK_CUR) - n, data, n);
  return n;
}
ssize_t pread(int fd, void *data, size_t bytes, off_t offset) {
  countCall();
  return syscall(SYS_pread64, fd, data, bytes, offset);
}
ssize_t pread64(int fd, void *data, size_t bytes, off_t offset) __attribute__((alias("pread")));
int ftruncate(int fd, off_t size) noexcept {
  countCall();
  int status = syscall(SYS_ftruncate, fd, size);
  if (status == 0)
    record('S', pathOf(fd), "", size);
  return status;
}
int ftruncate64(int fd, off_t size) noexcept __attribute__((alias("ftruncate")));
int fsync(int fd) {
  countCall();
  usleep(1000 * settings().slowSync);
  int status = syscall(SYS_fsync, fd);
  if (status == 0)
    record('F', pathOf(fd));
  return status;
}
int fdatasync(int fd) { return fsync(fd); }
int flock(int fd, int operation) noexcept {
  countCall();
  if (int error = std::atoi(get("FAULT_NO_LOCK"))) {
    errno = error;
    return -1;
  }
  return syscall(SYS_flock, fd, operation);
}
int rename(const char *from, const char *to) noexcept {
  countCall(/*renames=*/true);
  if (int error = std::atoi(get("FAULT_NO_RENAME"))) {
    errno = error;
    return -1;
  }
  int status = syscall(SYS_rename, from, to);
  if (status == 0)
    record('R', pathAt(AT_FDCWD, from), pathAt(AT_FDCWD, to));
  return status;
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) noexcept {
  countCall(/*renames=*/true);
  if (int error = flags ? std::atoi(get("FAULT_NO_EXCHANGE")) : 0) {
    errno = error;
    return -1;
  }
  int status = syscall(SYS_renameat2, a, from, b, to, flags);
  if (status == 0)
    record(flags ? 'X' : 'R', pathAt(a, from), pathAt(b, to)); // 'X': exchanged
  return status;
}
int unlink(const char *path) noexcept {
  countCall();
  int status = syscall(SYS_unlink, path);
  if (status == 0)
    record('U', pathAt(AT_FDCWD, path));
  return status;
}
int unlinkat(int folder, const char *path, int flags) noexcept {
  countCall();
  int status = syscall(SYS_unlinkat, folder, path, flags);
  if (status == 0)
    record('U', pathAt(folder, path));
  return status;
}
int rmdir(const char *path) noexcept {
  countCall();
  int status = syscall(SYS_rmdir, path);
  if (status == 0)
    record('U', pathAt(AT_FDCWD, path));
  return status;
}
int mkdir(const char *path, mode_t mode) noexcept {
  countCall();
  int status = syscall(SYS_mkdir, path, mode);
  if (status == 0)
    record('D', pathAt(AT_FDCWD, path));
  return status;
}
char *mkdtemp(char *path) noexcept {
  countCall();
  return next<char *(*)(char *)>("mkdtemp")(path);
}

int bind(int fd, const sockaddr *address, socklen_t size) noexcept {
  countCall();
  return syscall(SYS_bind, fd, address, size);
}
int listen(int fd, int most) noexcept {
  countCall();
  return syscall(SYS_listen, fd, most);
}
int connect(int fd, const sockaddr *address, socklen_t size) {
  countCall();
  return syscall(SYS_connect, fd, address, size);
}
int accept(int fd, sockaddr *address, socklen_t *size) {
  countCall();
  return syscall(SYS_accept, fd, address, size);
}

void _exit(int code) {
  leave();
  syscall(SYS_exit_group, code);
  __builtin_unreachable();
}
}
