// Initial weights: from the model's files or constant.
#ifndef SHALE_RUNTIME_CHECKPOINT_INITIAL_H
#define SHALE_RUNTIME_CHECKPOINT_INITIAL_H

#include "shale/Runtime.h"

namespace shale::rt {

/// Fills this rank's parameters; reads only what it stores. A file is taken
/// where it was at compile time, else beside the program; missing: exit code
/// 66, of another size: 65.
void readInitial(const ShaleProgram &program, int rank, char *state);

/// Checks that the files are there, without reading them.
void checkInitialFiles(const ShaleProgram &program);

} // namespace shale::rt

#endif
