// Micro-batches for a rank: fills the program's inputs from a data file.
#ifndef SHALE_RUNTIME_DATA_BATCHES_H
#define SHALE_RUNTIME_DATA_BATCHES_H

#include "runtime/data/DataFiles.h"
#include "runtime/data/SafetensorsReader.h"
#include "runtime/data/Tokens.h"
#include "shale/Runtime.h"

#include <memory>
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

/// Returns the files of a comma-separated list of files and folders. A folder stands
/// for its .bin, .npy and .safetensors files, sorted by name. Fails with exit code 66
/// for a folder without any.
std::vector<std::string> dataFiles(const std::string &path);

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
  std::vector<DataFile> files() const;
  /// Number of micro-batches in the files; -1: unlimited, the files wrap around.
  int64_t limit() const { return options.repeat ? -1 : microBatches; }
  /// Rows of a whole micro-batch that come from token files.
  int64_t rows() const { return windowRows; }
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
  struct Plan {
    enum Kind { Tensor, Tokens, Ones, Range, Copy, Next, Random } kind;
    std::vector<const TensorInfo *> tensors; // by file
    int64_t shift = 0;                       // Tokens: 0 or 1
    int from = -1;                           // Copy, Next: input
    // The local part as [outer][rows][inner] around the batch dimension.
    int64_t outer = 1, rowCount = 1, inner = 1, firstRow = 0, wholeRows = 1;
  };
  void planInput(int index);
  void planTensor(int index, Plan &plan);
  /// Plans an input that is bound to tokens and has no tensor of its own, but whose tokens another
  /// input reads from a tensor. Returns false if there is none.
  bool planFromTokens(int index, Plan &plan);
  void countMicroBatches();
  void countWindows();
  bool canIgnore() const;
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
  int rank;
  DataOptions options;
  std::vector<std::unique_ptr<SafetensorsReader>> tensors;
  std::vector<std::unique_ptr<TokenFile>> tokens;
  std::vector<int64_t> ends; // micro-batches or windows up to the end of each file
  std::vector<Plan> plans;
  std::vector<char> buffer; // a window or a slice, in the file's type
  int64_t microBatches = -1;
  int64_t windowLength = 0, windowRead = 0, windows = 0, windowRows = 0;
  int64_t lastRow = -1; // for fillOnce: labels of rows from here on are ignored
  Filler filler = Filler::Rows;
};

/// Returns the number of elements of this rank's part of an input.
int64_t elementsOf(const ShaleInput &input);

/// The unit in which a run's speed is counted.
struct Counted {
  bool isTokens;   // else samples: no input is tokens
  int64_t perStep; // of all ranks and micro-batches
  const char *unit() const { return isTokens ? "tokens" : "samples"; }
};
Counted countedOf(const ShaleProgram &program);

} // namespace shale::rt

#endif
