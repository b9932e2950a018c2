// Micro-batches for a rank: fills the program's inputs from a data file.
#ifndef SHALE_RUNTIME_DATA_BATCHES_H
#define SHALE_RUNTIME_DATA_BATCHES_H

#include "runtime/data/SafetensorsReader.h"
#include "runtime/data/Tokens.h"
#include "shale/Runtime.h"

#include <memory>
#include <string>
#include <vector>

namespace shale::rt {

struct DataOptions {
  std::string path; // files and folders with commas between; may be empty when
                    // every input has a binding without data
  std::string binType = "uint16";
  bool typed = false; // binType was said, not assumed
  uint64_t seed = 0;
  bool shuffle = true;
  bool repeat = false; // begin anew behind the last tensor; tokens always do
};

/// The files that a path means: itself, or what is between its commas; of a folder
/// what ends with .bin, .npy or .safetensors, by name. Exit code 66 for a folder
/// without any.
std::vector<std::string> dataFiles(const std::string &path);

/// Every rank opens the same files. The whole-program micro-batch has the rows
/// of all data coordinates; this rank reads its own equal slice. A step's rows
/// depend on (seed, position) and not on the number of ranks.
class Batches {
public:
  Batches(const ShaleProgram &program, int rank, const DataOptions &options);

  const std::string &path() const { return options.path; }
  /// Micro-batches the files have; -1: they wrap around, there is no end.
  int64_t limit() const { return options.repeat ? -1 : microBatches; }
  /// Rows of a whole micro-batch that come from token files.
  int64_t rows() const { return windowRows; }
  /// Whole steps of so many micro-batches in so many passes over the data.
  int64_t stepsIn(double passes, int64_t perStep) const;
  /// Inputs bound to ones that a .safetensors file lacks, a padding mask; nullptr: none.
  const char *filledWithOnes() const;
  /// Fills buffers[i] (this rank's part of input i) with micro-batch `step`;
  /// for token files, `firstRow` is the position of its first row in the
  /// order.
  void fill(int64_t step, int64_t firstRow, void *const *buffers);

  /// Micro-batches of one pass in which no row comes twice. Where the last one is
  /// not full of rows, the rest has ignored labels; where the program ignores none,
  /// it is left out.
  int64_t wholePass() const;
  int64_t rowsLeftOut() const;
  void fillOnce(int64_t step, void *const *buffers);
  /// What random ops draw from, for inputs that are bound to it.
  struct Randomness {
    uint64_t seed = 0;
    int64_t step = 0, microbatch = 0;
  };
  void fillRandom(const Randomness &randomness, void *const *buffers) const;

private:
  struct Plan {
    enum Kind { Tensor, Tokens, Ones, Range, Copy, Random } kind;
    std::vector<const TensorInfo *> tensors; // by file
    int64_t shift = 0; // Tokens: 0 or 1
    int from = -1;     // Copy: input
    // The local part as [outer][rows][inner] around the batch dimension.
    int64_t outer = 1, rowCount = 1, inner = 1, firstRow = 0, wholeRows = 1;
  };
  void planInput(int index);
  void planTensor(int index, Plan &plan);
  void countMicroBatches();
  void countWindows();
  bool canIgnore() const;
  void fillTensor(int index, int64_t step, void *buffer);
  void fillTokens(int index, int64_t firstRow, void *buffer);
  /// Elements [from, from + count) of an input, which stand at `position` of
  /// the file, counted in what `what` says.
  void check(int index, int64_t from, int64_t count, const void *buffer,
             const std::string &path, const char *what, int64_t position) const;
  int64_t windowOf(int64_t row) const;

  const ShaleProgram &program;
  int rank;
  DataOptions options;
  std::vector<std::unique_ptr<SafetensorsReader>> tensors;
  std::vector<std::unique_ptr<TokenFile>> tokens;
  std::vector<int64_t> ends; // micro-batches or windows up to the end of each file
  std::vector<Plan> plans;
  std::vector<char> buffer; // a window or a slice, in the file's type
  int64_t microBatches = -1;
  int64_t windowLength = 0, windowRead = 0, windows = 0, windowRows = 0;
  int64_t lastRow = -1; // of fillOnce: rows from here on are ignored
};

int64_t elementsOf(const ShaleInput &input);

} // namespace shale::rt

#endif
