// Names of the folders of checkpoints, and the order of renames by which one becomes complete.
//
//   step-N          a complete checkpoint
//   step-N.tmp-new  a save in progress
//   step-N.before   complete: step N as it was saved before. It counts if there is no step-N
//   step-N.tmp-old  one that is being removed
//   step-N.tmp-trial, step-N.tmp-trial2  of the trial before the first step (Trial.h)
//
// A step is saved a second time if its first checkpoint is damaged, or was lost in part. The new
// folder is exchanged with the old one atomically, where the file system can. Where it cannot (NFS,
// most FUSE), step-N is renamed to step-N.before and step-N.tmp-new to step-N: after a crash
// between the two, step-N.before is found, and the next run gives it its name back.
#ifndef SHALE_RUNTIME_CHECKPOINT_FOLDERS_H
#define SHALE_RUNTIME_CHECKPOINT_FOLDERS_H

#include <cstdint>
#include <string>

namespace shale::rt {

/// Returns the folder in which step `step` is written.
std::string unfinishedFolder(const std::string &out, int64_t step);

/// Returns a folder for a trial, whose name is not shorter.
std::string trialFolder(const std::string &out, int64_t step);

/// Gives that folder, which is complete, its name, in place of an earlier checkpoint of this step.
/// Fails with exit code 74; the earlier checkpoint is then still there.
void commitCheckpoint(const std::string &out, int64_t step);

/// Removes checkpoints before `step` beyond the newest `keep`. Those after it are of a run whose
/// newest checkpoints are damaged; they must not take the places of good ones.
void pruneCheckpoints(const std::string &out, int64_t keep, int64_t step);

} // namespace shale::rt

#endif
