// A checkpoint stores names, sizes and hashes of the data files. A run that is resumed compares
// them, because the order of rows depends on the number of rows.
#ifndef SHALE_RUNTIME_DATA_DATAFILES_H
#define SHALE_RUNTIME_DATA_DATAFILES_H

#include "runtime/core/Files.h"

#include <cstdint>
#include <string>
#include <vector>

namespace shale::rt {

struct DataFile {
  std::string name; // without its folder, as it is printed
  int64_t bytes = 0;
  int64_t rows = 0; // windows of tokens, or micro-batches
  uint64_t hash = 0;
};

/// Returns the hash of a file: XXH3 of all bytes up to `most`, else of samples at even distances,
/// the first and the last bytes among them.
uint64_t sampledHash(const InputFile &file, int64_t most);

/// The bytes that are read for the hash of one of `files` files.
int64_t sampledBytes(size_t files);

/// How the data of a run differs from that of a checkpoint.
struct DataChange {
  std::string other;   // the files or their bytes differ; "": they do not
  std::string renamed; // only names differ; "": none does
};
DataChange compareData(const std::vector<DataFile> &before, const std::vector<DataFile> &now);

} // namespace shale::rt

#endif
