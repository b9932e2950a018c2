// Preloaded into a program under test: ends it with SIGKILL at the N-th call
// that changes a file or folder (KILL_AT=N), as a crash or a power cut would.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/types.h>
#include <unistd.h>

static void count() {
  static long left = [] {
    const char *text = std::getenv("KILL_AT");
    return text ? std::atol(text) : 0;
  }();
  if (left > 0 && --left == 0)
    raise(SIGKILL);
}

template <typename F> static F next(const char *name) {
  return reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

extern "C" {
ssize_t write(int fd, const void *data, size_t bytes) {
  if (fd > 2)
    count();
  return next<ssize_t (*)(int, const void *, size_t)>("write")(fd, data, bytes);
}
int fsync(int fd) {
  count();
  return next<int (*)(int)>("fsync")(fd);
}
int rename(const char *from, const char *to) noexcept {
  count();
  return next<int (*)(const char *, const char *)>("rename")(from, to);
}
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) noexcept {
  count();
  return next<int (*)(int, const char *, int, const char *, unsigned)>("renameat2")(a, from, b, to,
                                                                                    flags);
}
int unlinkat(int fd, const char *path, int flags) noexcept {
  count();
  return next<int (*)(int, const char *, int)>("unlinkat")(fd, path, flags);
}
int mkdir(const char *path, mode_t mode) noexcept {
  count();
  return next<int (*)(const char *, mode_t)>("mkdir")(path, mode);
}
}
