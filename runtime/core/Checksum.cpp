// Checksums by xxHash.
#include "runtime/core/Checksum.h"

#include <new>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shale::rt {

Checksum::Checksum() : state(XXH3_createState()) {
  if (!state)
    throw std::bad_alloc();
  reset();
}

Checksum::~Checksum() { XXH3_freeState(static_cast<XXH3_state_t *>(state)); }

void Checksum::add(const void *data, int64_t bytes) {
  XXH3_64bits_update(static_cast<XXH3_state_t *>(state), data, bytes);
}

uint64_t Checksum::value() const { return XXH3_64bits_digest(static_cast<XXH3_state_t *>(state)); }

void Checksum::reset() { XXH3_64bits_reset(static_cast<XXH3_state_t *>(state)); }

uint64_t checksumOf(const std::string &bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

} // namespace shale::rt
