// Micro-batches for a rank: fills the program's inputs from a data file.
#ifndef SHALE_RUNTIME_DATA_BATCHES_H
#define SHALE_RUNTIME_DATA_BATCHES_H

#include "runtime/data/InputPlans.h"
#include "runtime/data/OpenedFiles.h"
#include "shale/Runtime.h"

#include <string>
#include <vector>

namespace shale::rt {

struct DataOptions {
  std::string path; // files and folders, separated by commas; may be empty if
                    // every input has a binding that needs no data
  std::string binType = "uint16";
  bool typed = false; // binType was given by the user
  uint64_t seed = 0;
  bool shuffle = true;
  bool repeat = false; // wrap around after the last tensor; tokens always do
};

/// Reads micro-batches. Every rank opens the same files. A whole micro-batch has the
/// rows of all data coordinates; this rank reads its own equal slice. The rows of a
/// step depend on (seed, position) and not on the number of ranks.
class Batches {
public:
  Batches(const ShaleProgram &program, int rank, const DataOptions &options);

  const std::string &path() const { return options.path; }
  /// Returns what the files hold: "data.bin: 2000 tokens (U16), 249 rows of 8"; "" without files.
  std::string describe() const;
  /// Returns the files in their order. Reads samples of them.
  std::vector<DataFile> files() const { return opened.sampled(ends); }
  /// Number of micro-batches in the files; -1: unlimited, the files wrap around.
  int64_t limit() const { return options.repeat ? -1 : microBatches; }
  /// Rows of a whole micro-batch that come from token files.
  int64_t rows() const { return tokenRow.count; }
  /// Number of steps of `perStep` micro-batches in one pass over the data; 0 without files.
  double stepsInPass(int64_t perStep) const;
  /// Number of whole steps of `perStep` micro-batches in `passes` passes over the data.
  int64_t stepsIn(double passes, int64_t perStep) const;
  /// An input bound to ones (a padding mask) that a .safetensors file lacks; nullptr: none.
  const char *filledWithOnes() const;
  /// Fills buffers[i] (this rank's part of input i) with micro-batch `step`;
  /// for token files, `firstRow` is the position of its first row in the
  /// order.
  void fill(int64_t step, int64_t firstRow, void *const *buffers);
  /// Whether a label that was filled is not ignored, or the program ignores none.
  bool hasLabels(void *const *buffers) const;

  /// Number of micro-batches of one pass that reads no row twice. If the rows do not
  /// fill the last micro-batch, its other rows have ignored labels; if the program
  /// ignores no label, the last micro-batch is left out.
  int64_t wholePass() const;
  /// Rows that such a pass leaves out.
  int64_t rowsLeftOut() const;
  /// Rows of the last micro-batch of such a pass if others fill it; 0 if none do.
  int64_t rowsInFilled() const;
  /// The contents of the rows that fill the last micro-batch: other rows of the files, or zeros.
  /// Their labels are ignored.
  enum class Filler { Rows, Zeros };
  /// Fills buffers[i] with micro-batch `step` of such a pass.
  void fillOnce(int64_t step, void *const *buffers, Filler filler = Filler::Rows);
  /// The same, as if all rows were after the last one: all labels are ignored.
  void fillUnlabelled(int64_t step, void *const *buffers);
  /// Values of the inputs that random ops draw from.
  struct Randomness {
    uint64_t seed = 0;
    int64_t step = 0, microbatch = 0;
  };
  void fillRandom(const Randomness &randomness, void *const *buffers) const;

private:
  void countMicroBatches();
  void countWindows();
  /// Makes `buffer` large enough.
  void reserve(size_t bytes);
  void fillTensor(int index, int64_t step, void *buffer);
  void fillTokens(int index, int64_t firstRow, void *buffer);
  /// Fills an input with the tokens that another one holds, each one position earlier. The last
  /// position of a row has no next token, so its label is the one that the loss ignores.
  void fillNext(int index, const void *tokens, void *buffer) const;
  /// Checks the range of elements [from, from + count) of an input, read from
  /// `position` of the file, which counts units of `what`.
  void check(int index, int64_t from, int64_t count, const void *buffer, const std::string &path,
             const char *what, int64_t position) const;
  int64_t windowOf(int64_t row) const;

  const ShaleProgram &program;
  DataOptions options;
  OpenedFiles opened;
  InputPlans plans;
  TokenRow tokenRow;
  std::vector<int64_t> ends; // micro-batches or windows up to the end of each file
  std::vector<char> buffer;  // a window or a slice, in the file's type
  int64_t microBatches = -1, windows = 0;
  int64_t lastRow = -1; // for fillOnce: labels of rows from here on are ignored
  Filler filler = Filler::Rows;
};

} // namespace shale::rt

#endif
