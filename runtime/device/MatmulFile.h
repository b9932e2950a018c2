// The file that keeps the algorithms of a program's matmuls, so that a program that is started
// again has the same bits and need not time them again.
//
// {"body": {"format": 2, "machine": "..", "matmuls": [{"matmul": "..", "algorithm": "..",
// "first_us": .., "us": ..}, ..]}, "xxh3": XXH3 of the body's text}.
#ifndef SHALE_RUNTIME_DEVICE_MATMULFILE_H
#define SHALE_RUNTIME_DEVICE_MATMULFILE_H

#include "runtime/device/Tuner.h"

#include <string>
#include <vector>

namespace shale::rt {

/// Returns the text of the file for these choices on a machine (MatmulTuner::machine).
std::string matmulText(const std::string &machine, const Choices &choices);

/// Reads what matmulText() wrote for the same machine. Throws Error with exit code 65 and a
/// message that completes "FILE .."; no content makes it fail in another way.
Choices parseMatmuls(const std::string &text, const std::string &machine);

/// The file "PROGRAM.matmuls.json" beside the program, or in another folder if that one is
/// read-only.
class MatmulFile {
public:
  /// `program` is the path of the executable, `otherwise` a folder.
  MatmulFile(const std::string &program, const std::string &otherwise);

  /// Returns the choices of the first of both files that can be used; none if there is no such
  /// file. Warns about a file that is damaged, or that is of another machine.
  Choices load(const std::string &machine) const;

  /// Replaces the file. Returns its path, or "" with a warning if neither folder is writable.
  std::string store(const std::string &machine, const Choices &choices) const;

  /// The path beside the program.
  const std::string &first() const { return paths.front(); }

private:
  std::vector<std::string> paths;
};

} // namespace shale::rt

#endif
