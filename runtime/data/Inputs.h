// What the inputs of a program hold.
#ifndef SHALE_RUNTIME_DATA_INPUTS_H
#define SHALE_RUNTIME_DATA_INPUTS_H

#include "shale/Runtime.h"

namespace shale::rt {

/// Returns the number of elements of this rank's part of an input.
int64_t elementsOf(const ShaleInput &input);

/// Whether an input is bound to tokens or to the next ones.
bool readsTokens(const ShaleInput &input);

/// Returns the vocabulary size of the tokens that the program reads; 0 if unknown.
int64_t vocabularyOf(const ShaleProgram &program);

/// The unit in which a run's speed is counted.
struct Counted {
  bool isTokens;   // else samples: no input is tokens
  int64_t perStep; // of all ranks and micro-batches
  const char *unit() const { return isTokens ? "tokens" : "samples"; }
};
Counted countedOf(const ShaleProgram &program);

} // namespace shale::rt

#endif
