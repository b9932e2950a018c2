// The division of a stored piece for its checksums: a reader reads and checks what it needs.
#ifndef SHALE_RUNTIME_CHECKPOINT_CHUNKS_H
#define SHALE_RUNTIME_CHECKPOINT_CHUNKS_H

#include "runtime/core/Checksum.h"
#include "runtime/core/Files.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

namespace shale::rt {

/// A chunk is `elements` consecutive elements of the piece; the last chunk may be shorter. Rows of
/// `row` elements, counted from the start of the piece's box, have `parts` equal parts. A checksum
/// covers one part of all rows of one chunk, in order. A rank that has some columns of a matrix
/// therefore reads little more than these; with chunks alone it would read whole rows.
struct Chunks {
  int64_t elements = 1;
  int64_t row = 1;
  int64_t parts = 1;

  /// Returns how many chunks `count` elements have: at least one, which may be empty.
  int64_t of(int64_t count) const {
    return count / elements + (count % elements != 0 || count == 0);
  }
  int64_t partOf(int64_t element) const { return element % row / (row / parts); }
};

/// Bytes of a chunk in the checkpoints that are saved.
constexpr int64_t savedChunkBytes = int64_t(4) << 20;

/// The most parts of a row. A reader has a checksum of each at a time.
constexpr int64_t mostParts = 8;

/// Returns the division of a box, or of a whole parameter, with these dimensions. A part has at
/// least a 4096th of a chunk's bytes, so that checksums and reads of it are long enough to be fast.
Chunks chunksFor(const std::vector<int64_t> &size, int64_t elementBytes, int64_t chunkBytes);

/// Calls `visit(part, begin, count)` for the elements [begin, end) of a box, in order, in runs that
/// are in one part of a row.
template <typename Visit>
void forParts(const Chunks &chunks, int64_t begin, int64_t end, const Visit &visit) {
  if (chunks.parts == 1) {
    if (begin < end)
      visit(int64_t(0), begin, end - begin);
    return;
  }
  int64_t width = chunks.row / chunks.parts;
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(width - at % width, end - at);
    visit(chunks.partOf(at), at, n);
    at += n;
  }
}

/// Computes the checksums of a piece from its bytes in order.
class ChunkSums {
public:
  /// `begin`: the piece's first element in its box.
  ChunkSums(const Chunks &chunks, int64_t begin, int64_t elementBytes)
      : chunks(chunks), begin(begin), at(begin), elementBytes(elementBytes),
        open(new Checksum[chunks.parts]) {}

  /// Adds whole elements.
  void add(const char *data, int64_t bytes);
  /// Returns the checksums of all parts of the first chunk, then of the next ones.
  std::vector<uint64_t> finish();

private:
  void close();

  const Chunks chunks;
  const int64_t begin;
  int64_t at;
  const int64_t elementBytes;
  std::unique_ptr<Checksum[]> open; ///< of the current chunk, by part
  std::vector<uint64_t> sums;
};

/// Bytes of a file that are read at once where all of it is read.
constexpr int64_t readBytes = 1 << 20;

/// Adds `bytes` of a file, from `offset` on, to a Checksum or to ChunkSums. `buffer` must have
/// readBytes bytes.
template <typename Sum>
void addBytes(const InputFile &file, int64_t offset, int64_t bytes, std::vector<char> &buffer,
              Sum &sum) {
  for (int64_t at = 0; at < bytes; at += readBytes) {
    int64_t n = std::min(readBytes, bytes - at);
    file.readAt(offset + at, buffer.data(), n);
    sum.add(buffer.data(), n);
  }
}

} // namespace shale::rt

#endif
