// Division of pieces, and their checksums while they are written or read whole.
#include "runtime/checkpoint/Chunks.h"

namespace shale::rt {

Chunks chunksFor(const std::vector<int64_t> &size, int64_t elementBytes, int64_t chunkBytes) {
  Chunks chunks;
  chunks.elements = chunkBytes / elementBytes;
  // The longest rows that fit into a chunk. Of longer ones, chunks are parts already.
  for (size_t d = size.size(); d-- > 1 && size[d] <= chunks.elements / chunks.row;)
    chunks.row *= std::max<int64_t>(size[d], 1);
  int64_t least = chunkBytes / 4096;
  chunks.parts = mostParts;
  while (chunks.parts > 1 &&
         (chunks.row % chunks.parts != 0 || chunks.row / chunks.parts * elementBytes < least))
    chunks.parts /= 2;
  if (chunks.parts == 1)
    chunks.row = 1;
  return chunks;
}

void ChunkSums::add(const char *data, int64_t bytes) {
  for (int64_t end = at + bytes / elementBytes; at < end;) {
    int64_t left = chunks.elements - (at - begin) % chunks.elements;
    int64_t stop = at + std::min(left, end - at);
    forParts(chunks, at, stop, [&](int64_t part, int64_t, int64_t count) {
      open[part].add(data, count * elementBytes);
      data += count * elementBytes;
    });
    at = stop;
    if ((at - begin) % chunks.elements == 0)
      close();
  }
}

void ChunkSums::close() {
  for (int64_t part = 0; part < chunks.parts; ++part) {
    sums.push_back(open[part].value());
    open[part].reset();
  }
}

std::vector<uint64_t> ChunkSums::finish() {
  if ((at - begin) % chunks.elements != 0 || at == begin)
    close();
  return std::move(sums);
}

} // namespace shale::rt
