// Initial weights: from the model's files, constant, from files that --init
// names, or random.
#ifndef SHALE_RUNTIME_CHECKPOINT_INITIAL_H
#define SHALE_RUNTIME_CHECKPOINT_INITIAL_H

#include "runtime/core/Files.h"
#include "runtime/device/State.h"
#include "shale/Runtime.h"

#include <string>
#include <vector>

namespace shale::rt {

struct InitOptions {
  std::string source;               // a file, a folder, "random:SEED", or empty: the model's files
  std::vector<std::string> renames; // OLD=NEW, see checkpoint/Given.h
};

/// Fills this rank's parameters; reads only the elements that it stores. The model's
/// own file is read from its path at compile time, else from beside the program. Fails
/// with exit code 66 if it is missing, 65 if its size or values differ.
void readInitial(const ShaleProgram &program, const InitOptions &init, int rank, State &state);

/// Checks what can be checked without reading all values: the files exist, are those
/// of compile time (by their size and SHALE_HASHED_BYTES of each parameter), and hold what
/// the program needs. Returns a note for the user, or "".
std::string checkInitial(const ShaleProgram &program, const InitOptions &init);

/// Opens the file of initial values, found by the rules of readInitial().
InputFile openInitial(const ShaleInit &init);

/// Fails with exit code 65 if the hashed bytes of a parameter in its file are not those of compile
/// time: the compiler may have merged, tied or folded the program on the basis of the values.
void checkHash(const ShaleParameter &parameter, const InputFile &file);

} // namespace shale::rt

#endif
