// How each input of a program is filled from data files.
#ifndef SHALE_RUNTIME_DATA_INPUTPLANS_H
#define SHALE_RUNTIME_DATA_INPUTPLANS_H

#include "runtime/data/OpenedFiles.h"

#include <vector>

namespace shale::rt {

/// What fills an input.
struct InputPlan {
  enum Kind { Tensor, Tokens, Ones, Range, Copy, Next, Random } kind;
  std::vector<const TensorInfo *> tensors; // by file
  int64_t shift = 0;                       // Tokens: 0 or 1
  int from = -1;                           // Copy, Next: input
  // The local part as [outer][rows][inner] around the batch dimension.
  int64_t outer = 1, rowCount = 1, inner = 1, firstRow = 0, wholeRows = 1;
};

/// A row of the inputs that token files fill: consecutive tokens of one file.
struct TokenRow {
  int64_t length = 0; // of a row of an input
  int64_t read = 0;   // tokens that the inputs read of a row: `length`, or one more
  int64_t count = 0;  // rows of a whole micro-batch; 0: no input reads token files
};

/// Chooses for each input of a program what fills it: files, other inputs, or fixed values.
class InputPlans {
public:
  /// Plans for the parts of inputs that `rank` holds. `files` outlive the object. Fails with exit
  /// code 65 if the files do not fit an input, and 64 if an input needs files and there are none.
  InputPlans(const ShaleProgram &program, int rank, const OpenedFiles &files);
  InputPlans(const InputPlans &) = delete;

  const InputPlan &operator[](int index) const { return plans[index]; }
  std::vector<InputPlan>::const_iterator begin() const { return plans.begin(); }
  std::vector<InputPlan>::const_iterator end() const { return plans.end(); }
  const TokenRow &tokenRow() const { return row; }
  /// Whether labels that token files fill have a value that is ignored.
  bool canIgnore() const;

private:
  void planInput(int index);
  void planTensor(int index, InputPlan &plan);
  /// Plans an input that is bound to tokens and has no tensor of its own, but whose tokens another
  /// input reads from a tensor. Returns false if there is none.
  bool planFromTokens(int index, InputPlan &plan);
  void planTokens(int index, InputPlan &plan);

  const ShaleProgram &program;
  int rank;
  const OpenedFiles &files;
  std::vector<InputPlan> plans;
  TokenRow row;
};

} // namespace shale::rt

#endif
