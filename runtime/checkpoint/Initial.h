// Initial weights: from the model's files, constant, from files that --init
// names, or drawn.
#ifndef SHALE_RUNTIME_CHECKPOINT_INITIAL_H
#define SHALE_RUNTIME_CHECKPOINT_INITIAL_H

#include "runtime/core/Files.h"
#include "shale/Runtime.h"

#include <string>
#include <vector>

namespace shale::rt {

struct InitOptions {
  std::string source; // a file, a folder, "random:SEED", or empty: the model's
  std::vector<std::string> renames; // OLD=NEW, checkpoint/Given.h
};

/// Fills this rank's parameters; reads only what it stores. The model's own file
/// is taken where it was at compile time, else beside the program; missing: exit
/// code 66, of another size or with other values: 65.
void readInitial(const ShaleProgram &program, const InitOptions &init, int rank,
                 char *state);

/// Checks what can be checked without reading all values: the files are there, are
/// those that were compiled (by their size and the beginning of each parameter),
/// and hold what the program needs. Returns what is worth saying, or "".
std::string checkInitial(const ShaleProgram &program, const InitOptions &init);

/// The file of initial values, where it is now; by the rules of readInitial().
InputFile openInitial(const ShaleInit &init);

} // namespace shale::rt

#endif
