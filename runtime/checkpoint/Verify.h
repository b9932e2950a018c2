// Checks that a checkpoint is as it was written.
#ifndef SHALE_RUNTIME_CHECKPOINT_VERIFY_H
#define SHALE_RUNTIME_CHECKPOINT_VERIFY_H

#include <cstdint>
#include <string>
#include <vector>

namespace shale::rt {

struct CheckedFolder {
  int64_t step = 0, files = 0, bytes = 0; // of files whose size is right
  bool sums = false;                      // whether checksums cover all bytes of the files
  std::vector<std::string> problems;      // each names a file and, if possible, a range of bytes
};

/// Reads all files of one checkpoint.
CheckedFolder checkFolder(const std::string &folder);

/// Checks one checkpoint, or all that are below a run's folder. Prints a line for each that is
/// whole, and complains about each damage. Returns the exit code: 0, or 65. Fails with 66 if there
/// is no such folder.
int verifyCheckpoint(const std::string &path);

} // namespace shale::rt

#endif
