// XXH3 (64 bits) over bytes that arrive in parts.
#ifndef SHALE_RUNTIME_CORE_CHECKSUM_H
#define SHALE_RUNTIME_CORE_CHECKSUM_H

#include <cstdint>
#include <string>

namespace shale::rt {

class Checksum {
public:
  Checksum();
  ~Checksum();
  Checksum(const Checksum &) = delete;
  Checksum &operator=(const Checksum &) = delete;
  void add(const void *data, int64_t bytes);
  uint64_t value() const;
  /// Forgets what was added.
  void reset();

private:
  void *state;
};

uint64_t checksumOf(const std::string &bytes);

} // namespace shale::rt

#endif
