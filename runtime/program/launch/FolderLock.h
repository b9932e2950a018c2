// The lock of an output folder, by which no other run uses it.
//
// It is flock() on FOLDER/.lock, in which the process that has it writes its name. Where the file
// system has no locks (Lustre without -o flock, NFS without lockd), a file FOLDER/.owner that names
// host and process takes its place. It is made exclusively, so one run has it. A run that was
// killed leaves it; the next one takes it over if it can prove, on the same host, that the process
// is gone.
#ifndef SHALE_RUNTIME_PROGRAM_LAUNCH_FOLDERLOCK_H
#define SHALE_RUNTIME_PROGRAM_LAUNCH_FOLDERLOCK_H

#include <string>

namespace shale::rt {

class FolderLock {
public:
  /// Locks until the object is destroyed. Fails with exit code 64 if another run has the lock, or
  /// may have it, and with 74 if the folder cannot be written.
  explicit FolderLock(const std::string &folder);
  ~FolderLock();
  FolderLock(const FolderLock &) = delete;
  FolderLock &operator=(const FolderLock &) = delete;

  /// Whether the lock is still where another run would look for it.
  bool isThere() const;

private:
  void own();
  void sign();
  void release();

  std::string folder, lockPath, ownerPath;
  int lock = -1;
  bool owned = false;    // whether .owner is this process's
  bool isSigned = false; // whether .lock names this process
};

} // namespace shale::rt

#endif
