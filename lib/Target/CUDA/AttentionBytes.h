//===- AttentionBytes.h - The workspace of cuDNN's attention --------------===//
//
// Computes the bytes of workspace that a program plans for a call. The file includes no header of
// LLVM, so that test/emulation can compare these bytes with those that the real cuDNN needs.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_TARGET_CUDA_ATTENTIONBYTES_H
#define SHALE_TARGET_CUDA_ATTENTIONBYTES_H

#include <cstdint>

namespace shale::cuda {

/// Batch rows, heads of queries and of keys, positions and features of queries and of keys, and
/// features of values.
struct AttentionSizes {
  int64_t batch, heads, keyHeads, length, keyLength, depth, valueDepth;
};

inline int64_t upTo(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

/// Bytes that cuDNN needs on GPUs of an architecture (90: compute capability 9.0), including the
/// memory that the frontend takes from the workspace. For the gradient these are the row sums and,
/// unless it is deterministic, f32 sums of the query's gradient. cuDNN itself needs 256 bytes.
inline int64_t attentionBytes(const AttentionSizes &a, bool gradient, bool deterministic,
                              int architecture) {
  int64_t matrices = a.batch * a.heads, bytes = 256;
  if (!gradient)
    return bytes;
  bytes += 4 * matrices * a.length;
  // Gradients of keys and values for each query head.
  int64_t perHead =
      a.keyHeads == a.heads ? 0 : 2 * matrices * a.keyLength * (a.depth + a.valueDepth);
  bytes += perHead;
  if (!deterministic) {
    bytes += 4 * matrices * a.length * a.depth;
    if (architecture < 90) // once more by cuDNN
      bytes += 4 * matrices * upTo(a.length, 8) * a.depth;
  } else if (architecture < 100) { // the gradients of the scores, in 16 bits
    bytes += 2 * matrices * upTo(a.length, 64) * upTo(a.keyLength, 128);
  } else { // those of keys and values are in f32
    bytes += perHead;
  }
  return bytes;
}

} // namespace shale::cuda

#endif // SHALE_TARGET_CUDA_ATTENTIONBYTES_H
