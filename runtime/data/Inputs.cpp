// What the inputs of a program hold.
#include "runtime/data/Inputs.h"
#include "runtime/core/Rank.h"
#include "runtime/core/Types.h"

#include <algorithm>

namespace shale::rt {

int64_t elementsOf(const ShaleInput &input) {
  int64_t count = 1;
  for (int d = 0; d < input.rank; ++d)
    count *= input.dims[d];
  return count;
}

bool readsTokens(const ShaleInput &input) {
  return input.binding == SHALE_BINDING_TOKENS || input.binding == SHALE_BINDING_NEXT_TOKENS;
}

/// Whether an input holds tokens: integers at positions of a row, other than labels.
static bool isTokens(const ShaleInput &input) {
  bool isLabel = input.ignored != 0;
  return readsTokens(input) ||
         (isInteger(static_cast<Dtype>(input.type)) && input.rank >= 2 && !isLabel);
}

int64_t vocabularyOf(const ShaleProgram &program) {
  int64_t least = 0;
  for (int i = 0; i < program.input_count; ++i) {
    const ShaleInput &input = program.inputs[i];
    if (readsTokens(input) && input.bound > 0 && (least == 0 || input.bound < least))
      least = input.bound;
  }
  return least;
}

Counted countedOf(const ShaleProgram &program) {
  const ShaleInput *end = program.inputs + program.input_count;
  if (std::any_of(program.inputs, end, isTokens))
    return {true, program.tokens_per_step};
  const ShaleInput *first =
      std::find_if(program.inputs, end, [](const ShaleInput &one) { return one.batch_dim >= 0; });
  int64_t rows = first == end ? 1 : first->dims[first->batch_dim] * dataParts(program);
  return {false, rows * program.accumulate};
}

} // namespace shale::rt
