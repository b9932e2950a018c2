// Micro-batches for a rank: fills the program's inputs from a data file.
#ifndef SHALE_RUNTIME_DATA_BATCHES_H
#define SHALE_RUNTIME_DATA_BATCHES_H

#include "runtime/data/SafetensorsReader.h"
#include "runtime/data/Tokens.h"
#include "shale/Runtime.h"

#include <memory>
#include <optional>

namespace shale::rt {

struct DataOptions {
  std::string path; // may be empty when every input has a binding without data
  std::string binType = "uint16";
  uint64_t seed = 0;
  bool shuffle = true;
};

/// Every rank opens the same file. The whole-program micro-batch has the rows
/// of all data coordinates; this rank reads its own equal slice. A step's rows
/// depend on (seed, position) and not on the number of ranks.
class Batches {
public:
  Batches(const ShaleProgram &program, int rank, const DataOptions &options);

  /// Micro-batches the file has; -1: it wraps around, there is no end.
  int64_t limit() const { return microBatches; }
  /// Rows of a whole micro-batch that come from the token file.
  int64_t rows() const { return windowRows; }
  /// Fills buffers[i] (this rank's part of input i) with micro-batch `step`;
  /// for a token file, `firstRow` is the position of its first row in the
  /// order.
  void fill(int64_t step, int64_t firstRow, void *const *buffers);
  /// What random ops draw from, for inputs that are bound to it.
  struct Randomness {
    uint64_t seed = 0;
    int64_t step = 0, microbatch = 0;
  };
  void fillRandom(const Randomness &randomness, void *const *buffers) const;

private:
  struct Plan {
    enum Kind { Tensor, Tokens, Ones, Range, Copy, Random } kind;
    const TensorInfo *tensor = nullptr;
    int64_t shift = 0; // Tokens: 0 or 1
    int from = -1;     // Copy: input
    // The local part as [outer][rows][inner] around the batch dimension.
    int64_t outer = 1, rowCount = 1, inner = 1, firstRow = 0, wholeRows = 1;
  };
  void planInput(int index);
  void planTensor(int index, Plan &plan);
  void fillTensor(int index, int64_t step, void *buffer);
  void fillTokens(int index, int64_t firstRow, void *buffer);
  /// Elements [from, from + count) of an input, which stand at `position` of
  /// the file, counted in what `what` says.
  void check(int index, int64_t from, int64_t count, const void *buffer,
             const char *what, int64_t position) const;
  int64_t windowOf(int64_t row) const;

  const ShaleProgram &program;
  int rank;
  DataOptions options;
  std::optional<SafetensorsReader> tensors;
  std::optional<TokenFile> tokens;
  std::vector<Plan> plans;
  std::vector<char> buffer; // a window or a slice, in the file's type
  int64_t microBatches = -1;
  int64_t windowLength = 0, windowRead = 0, windows = 0, windowRows = 0;
};

int64_t elementsOf(const ShaleInput &input);

} // namespace shale::rt

#endif
