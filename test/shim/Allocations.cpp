// Counts the allocations of a running program by caller. It is preloaded
// (LD_PRELOAD) before the C library and counts every malloc, operator new and mmap.
//
// The caller is the first return address on the stack that is neither in this file
// nor in libstdc++ (whose containers allocate for others). Its module distinguishes
// Shale's own code (the program) from oneDNN, Gloo, libgomp and the C library.
//
// Environment:
//   SHALE_SHIM_OUT    at exit the report goes to SHALE_SHIM_OUT.PID
//   SHALE_SHIM_MARK, SHALE_SHIM_MARK_BYTES
//                     each pread of so many bytes of the file with this name is one mark:
//                     a program reads a row once per input and micro-batch. When it opens
//                     the file, it reads it in pieces of other sizes
//   SHALE_SHIM_FROM, SHALE_SHIM_TO
//                     allocations count while FROM <= marks < TO
//
// The report has lines of words: "marks N"; "caller MODULE OFFSET COUNT BYTES" for
// allocations in the window; "module MODULE PEAK" for the largest number of
// bytes live at once over the whole run, in blocks of at least 1 KiB;
// and "together PEAK" for all modules except the program.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <new>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

namespace {

constexpr size_t kModules = 64, kCallers = 4096, kLive = 1 << 16, kSmallest = 1024;

struct Module {
  char name[128];
  uintptr_t begin, end, base;
  long live, peak;
};
struct Caller {
  int module;
  uintptr_t offset;
  long count, bytes;
};
struct Live {
  void *block;
  size_t bytes;
  int module;
};

// Static memory only: an allocation in this file would call itself.
Module modules[kModules];
int moduleCount;
Caller callers[kCallers];
int callerCount;
Live live[kLive];
long together, togetherPeak, lost;
std::atomic<long> marks{0};
long windowFrom, windowTo;
size_t markBytes;
const char *markName, *reportName;
std::atomic_flag busy = ATOMIC_FLAG_INIT;
thread_local int inside __attribute__((tls_model("initial-exec")));

void *(*realMalloc)(size_t);
void *(*realCalloc)(size_t, size_t);
void *(*realRealloc)(void *, size_t);
void (*realFree)(void *);
int (*realPosixMemalign)(void **, size_t, size_t);
void *(*realMemalign)(size_t, size_t);
void *(*realMmap)(void *, size_t, int, int, int, off_t);
int (*realMunmap)(void *, size_t);
ssize_t (*realPread)(int, void *, size_t, off_t);

// Memory for dlsym itself, before the real functions are known.
alignas(16) char early[8192];
size_t earlyUsed;
bool isEarly(void *block) { return block >= early && block < early + sizeof(early); }
void *fromEarly(size_t bytes) {
  size_t at = earlyUsed;
  earlyUsed += (bytes + 15) & ~size_t(15);
  return earlyUsed <= sizeof(early) ? early + at : nullptr;
}

int noteModule(dl_phdr_info *info, size_t, void *) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || moduleCount == kModules)
      continue;
    Module &module = modules[moduleCount++];
    const char *slash = strrchr(info->dlpi_name, '/');
    const char *name = slash ? slash + 1 : info->dlpi_name;
    snprintf(module.name, sizeof(module.name), "%s", *name ? name : "program");
    module.base = info->dlpi_addr;
    module.begin = info->dlpi_addr + segment.p_vaddr;
    module.end = module.begin + segment.p_memsz;
  }
  return 0;
}

int moduleOf(uintptr_t address) {
  for (int i = 0; i < moduleCount; ++i)
    if (modules[i].begin <= address && address < modules[i].end)
      return i;
  return -1;
}

template <typename F> void load(F &real, const char *name) {
  real = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

long numberOf(const char *variable) {
  const char *value = getenv(variable);
  return value ? atol(value) : 0;
}

void start() {
  static std::atomic<int> state{0};
  if (state.load() != 0)
    return;
  state = 1;
  inside = 1;
  load(realMalloc, "malloc");
  load(realCalloc, "calloc");
  load(realRealloc, "realloc");
  load(realFree, "free");
  load(realPosixMemalign, "posix_memalign");
  load(realMemalign, "memalign");
  load(realMmap, "mmap");
  load(realMunmap, "munmap");
  load(realPread, "pread");
  reportName = getenv("SHALE_SHIM_OUT");
  markName = getenv("SHALE_SHIM_MARK");
  windowFrom = numberOf("SHALE_SHIM_FROM");
  windowTo = numberOf("SHALE_SHIM_TO");
  markBytes = numberOf("SHALE_SHIM_MARK_BYTES");
  dl_iterate_phdr(noteModule, nullptr);
  inside = 0;
}

struct Walk {
  uintptr_t address = 0;
  int module = -1, skipped = 0;
};

bool standsForOthers(const char *name) {
  return strncmp(name, "libstdc++", 9) == 0 || strncmp(name, "libshale_allocations", 20) == 0 ||
         strncmp(name, "libgcc_s", 8) == 0;
}

_Unwind_Reason_Code visit(_Unwind_Context *context, void *data) {
  Walk &walk = *static_cast<Walk *>(data);
  uintptr_t address = _Unwind_GetIP(context);
  int module = moduleOf(address);
  if (++walk.skipped > 24)
    return _URC_END_OF_STACK;
  if (module < 0 || standsForOthers(modules[module].name))
    return _URC_NO_REASON;
  walk.address = address;
  walk.module = module;
  return _URC_END_OF_STACK;
}

void lock() {
  while (busy.test_and_set(std::memory_order_acquire))
    ;
}
void unlock() { busy.clear(std::memory_order_release); }

void remember(void *block, size_t bytes, int module) {
  size_t at = (reinterpret_cast<uintptr_t>(block) >> 4) * 0x9e3779b97f4a7c15u >> 48;
  for (size_t i = 0; i < kLive; ++i) {
    Live &entry = live[(at + i) % kLive];
    if (entry.block && entry.block != reinterpret_cast<void *>(1))
      continue;
    entry = {block, bytes, module};
    modules[module].live += bytes;
    if (modules[module].live > modules[module].peak)
      modules[module].peak = modules[module].live;
    if (strcmp(modules[module].name, "program") != 0 && (together += bytes) > togetherPeak)
      togetherPeak = together;
    return;
  }
  ++lost;
}

/// Records an allocation of the calling code.
void note(void *block, size_t bytes) {
  bool counts = windowFrom <= marks && marks < windowTo;
  if (inside || !block || (!counts && bytes < kSmallest))
    return;
  inside = 1;
  Walk walk;
  _Unwind_Backtrace(visit, &walk);
  if (walk.module >= 0) {
    lock();
    if (bytes >= kSmallest)
      remember(block, bytes, walk.module);
    uintptr_t offset = walk.address - modules[walk.module].base;
    for (int i = 0; counts && i < int(kCallers); ++i) {
      Caller &caller = callers[i];
      if (i == callerCount) {
        caller = {walk.module, offset, 0, 0};
        ++callerCount;
      }
      if (caller.module != walk.module || caller.offset != offset)
        continue;
      ++caller.count;
      caller.bytes += bytes;
      break;
    }
    unlock();
  }
  inside = 0;
}

void forget(void *block) {
  if (inside || !block)
    return;
  lock();
  size_t at = (reinterpret_cast<uintptr_t>(block) >> 4) * 0x9e3779b97f4a7c15u >> 48;
  for (size_t i = 0; i < kLive; ++i) {
    Live &entry = live[(at + i) % kLive];
    if (!entry.block)
      break;
    if (entry.block != block)
      continue;
    modules[entry.module].live -= entry.bytes;
    if (strcmp(modules[entry.module].name, "program") != 0)
      together -= entry.bytes;
    entry.block = reinterpret_cast<void *>(1); // freed, but later entries of the chain may follow
    break;
  }
  unlock();
}

void report() {
  static std::atomic_flag done = ATOMIC_FLAG_INIT;
  if (!reportName || done.test_and_set())
    return;
  inside = 1;
  char path[4096], text[512];
  snprintf(path, sizeof(path), "%s.%d", reportName, int(getpid()));
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  auto put = [&](int n) {
    if (write(file, text, n) != n)
      _exit(70);
  };
  put(snprintf(text, sizeof(text), "marks %ld\nlost %ld\ntogether %ld\n", marks.load(), lost,
               togetherPeak));
  for (int i = 0; i < moduleCount; ++i)
    put(snprintf(text, sizeof(text), "module %s %ld\n", modules[i].name, modules[i].peak));
  for (int i = 0; i < callerCount; ++i)
    put(snprintf(text, sizeof(text), "caller %s 0x%lx %ld %ld\n", modules[callers[i].module].name,
                 (unsigned long)callers[i].offset, callers[i].count, callers[i].bytes));
  close(file);
}

} // namespace

extern "C" {

// Programs end here, with or without destructors.
__attribute__((noreturn)) void _exit(int code) {
  report();
  for (;;)
    syscall(SYS_exit_group, code);
}
__attribute__((noreturn)) void _Exit(int code) { _exit(code); }
__attribute__((destructor)) static void atExit() { report(); }

void *malloc(size_t bytes) {
  if (!realMalloc) {
    start();
    if (!realMalloc)
      return fromEarly(bytes);
  }
  void *block = realMalloc(bytes);
  note(block, bytes);
  return block;
}

void *calloc(size_t count, size_t bytes) {
  if (!realCalloc) {
    start();
    if (!realCalloc)
      return fromEarly(count * bytes); // static memory is zero
  }
  void *block = realCalloc(count, bytes);
  note(block, count * bytes);
  return block;
}

void *realloc(void *old, size_t bytes) {
  if (!realRealloc)
    start();
  if (isEarly(old)) {
    void *block = malloc(bytes);
    if (block)
      memcpy(block, old, bytes);
    return block;
  }
  forget(old);
  void *block = realRealloc(old, bytes);
  note(block, bytes);
  return block;
}

void free(void *block) {
  if (!realFree)
    start();
  if (isEarly(block))
    return;
  forget(block);
  realFree(block);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
  if (!realPosixMemalign)
    start();
  int code = realPosixMemalign(block, alignment, bytes);
  if (code == 0)
    note(*block, bytes);
  return code;
}

void *memalign(size_t alignment, size_t bytes) {
  if (!realMemalign)
    start();
  void *block = realMemalign(alignment, bytes);
  note(block, bytes);
  return block;
}

void *aligned_alloc(size_t alignment, size_t bytes) { return memalign(alignment, bytes); }

void *mmap(void *address, size_t bytes, int protection, int flags, int file,
           off_t offset) noexcept {
  if (!realMmap)
    start();
  void *block = realMmap(address, bytes, protection, flags, file, offset);
  if (block != MAP_FAILED && file < 0)
    note(block, bytes);
  return block;
}
void *mmap64(void *address, size_t bytes, int protection, int flags, int file,
             off_t offset) noexcept {
  return mmap(address, bytes, protection, flags, file, offset);
}

int munmap(void *address, size_t bytes) noexcept {
  if (!realMunmap)
    start();
  forget(address);
  return realMunmap(address, bytes);
}

ssize_t pread(int file, void *buffer, size_t bytes, off_t offset) {
  if (!realPread)
    start();
  if (markName && bytes == markBytes) {
    char link[64], path[1024];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    ssize_t n = readlink(link, path, sizeof(path) - 1);
    path[n < 0 ? 0 : n] = 0;
    const char *slash = strrchr(path, '/');
    if (slash && strcmp(slash + 1, markName) == 0)
      ++marks;
  }
  return realPread(file, buffer, bytes, offset);
}
ssize_t pread64(int file, void *buffer, size_t bytes, off_t offset) {
  return pread(file, buffer, bytes, offset);
}

} // extern "C"

// operator new of libstdc++ calls malloc above, and its frame is skipped.
