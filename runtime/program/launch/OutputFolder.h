// The folder of --out, and the lock by which no other run uses it.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCH_OUTPUTFOLDER_H
#define SHALE_RUNTIME_PROGRAM_LAUNCH_OUTPUTFOLDER_H

#include "runtime/program/flags/Options.h"
#include "runtime/program/launch/FolderLock.h"

#include <optional>

namespace shale::rt {

class OutputFolder {
public:
  /// Makes the folder, locks it until the object is destroyed, and removes what a killed process
  /// left half-written in it. Fails with exit code 64 if another run has the lock, and with 74 if
  /// the run could not write its files later, because of its rights or of a folder in their place.
  explicit OutputFolder(const Options &options);

  /// Whether the lock is still where another run would look for it.
  bool isThere() const { return lock->isThere(); }

private:
  std::optional<FolderLock> lock; // set by the constructor
};

} // namespace shale::rt

#endif
