// The header of a .npy file.
#ifndef SHALE_RUNTIME_DATA_NPY_H
#define SHALE_RUNTIME_DATA_NPY_H

#include "runtime/core/Files.h"

#include <cstdint>
#include <string>
#include <vector>

namespace shale::rt {

struct NpyHeader {
  std::string descr; // the type, such as "<u2"
  bool fortranOrder = false;
  std::vector<int64_t> shape; // not negative
  int64_t start = 0;          // of the values, bytes into the file
};

/// Reads the header of format version 1 to 3 as numpy writes it: a dictionary with `descr`,
/// `fortran_order` and `shape`, each once. Anything else is exit code 65.
NpyHeader readNpyHeader(const InputFile &file);

} // namespace shale::rt

#endif
