//===- Fuzz.h - What the fuzz targets share -------------------------------===//
#ifndef SHALE_TEST_FUZZ_FUZZ_H
#define SHALE_TEST_FUZZ_FUZZ_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <random>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most); // of libFuzzer

namespace shale::fuzz {

/// Counts inputs, those that went beyond the first check (mutants that a parser refuses prove
/// nothing), and those that nothing refused. The process writes both to the file that
/// SHALE_FUZZ_COUNTS names when it ends.
struct Counts {
  uint64_t inputs = 0, beyond = 0, accepted = 0;
  Counts() = default;
  ~Counts() {
    if (const char *path = std::getenv("SHALE_FUZZ_COUNTS"))
      if (FILE *file = std::fopen(path, "a")) {
        std::fprintf(file, "%llu inputs, %llu beyond the first check, %llu accepted\n",
                     (unsigned long long)inputs, (unsigned long long)beyond,
                     (unsigned long long)accepted);
        std::fclose(file);
      }
  }
};
inline Counts &counts() {
  static Counts all;
  return all;
}

/// A file in memory, with a path.
class MemoryFile {
public:
  explicit MemoryFile(std::string_view bytes) : file(memfd_create("fuzz", MFD_CLOEXEC)) {
    if (file < 0 || write(file, bytes.data(), bytes.size()) != ssize_t(bytes.size()))
      std::abort();
  }
  ~MemoryFile() { close(file); }
  std::string path() const { return "/proc/self/fd/" + std::to_string(file); }

private:
  int file;
};

/// Random numbers of one mutation.
class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  /// A number less than `end`, which is positive.
  size_t below(size_t end) { return std::uniform_int_distribution<size_t>(0, end - 1)(engine); }
  /// A number at which code may go wrong.
  int64_t integer() {
    static constexpr int64_t kInteresting[] = {0,
                                               1,
                                               -1,
                                               2,
                                               3,
                                               7,
                                               8,
                                               64,
                                               1 << 16,
                                               -2,
                                               -8,
                                               63,
                                               INT32_MAX,
                                               INT32_MIN,
                                               INT64_MAX,
                                               INT64_MIN,
                                               UINT32_MAX,
                                               int64_t(1) << 32,
                                               int64_t(1) << 40};
    return below(3) ? kInteresting[below(std::size(kInteresting))] : int64_t(below(200)) - 100;
  }

private:
  std::minstd_rand engine;
};

} // namespace shale::fuzz

#endif // SHALE_TEST_FUZZ_FUZZ_H
