// Sharded checkpoints: DIR/checkpoints/step-N/{manifest.json,
// shard-R.safetensors}.
//
// Commit: every rank writes and syncs its shard in a temporary folder; rank 0
// writes the manifest with a checksum of every piece, syncs it and the folder,
// renames the folder to its name and syncs the parent. A folder without
// ".tmp-" in its name is complete.
#ifndef SHALE_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define SHALE_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/checkpoint/Chunks.h"
#include "runtime/comm/Peers.h"
#include "runtime/data/DataFiles.h"
#include "runtime/device/State.h"
#include "shale/Runtime.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shale::rt {

/// Gradient norms so far (--skip-spikes).
struct NormHistory {
  int64_t count = 0;   // of finite norms
  double mean = 0;     // a running one
  int64_t skipped = 0; // steps whose norm was above the limit
};

/// Position of a run: everything that is not in the state block.
struct Position {
  int64_t step = 0;    // the step to run next
  int64_t updates = 0; // optimizer updates so far: steps minus skipped ones
  int64_t row = 0;     // next row in the order of the data
  uint64_t seed = 0;
  NormHistory norms;
  std::map<std::string, std::string> flags; // flags that affect the result of training
  std::vector<DataFile> data;               // none: an older program wrote the checkpoint
  std::string run;                          // runId() of the run that saved it; "": it has none
  std::string folder;                       // the checkpoint it was read from
  int64_t bytesRead = 0;                    // of its tensors, by this rank
};

/// Returns the folders of the complete checkpoints below `out`, oldest first.
std::vector<std::string> listCheckpoints(const std::string &out);

/// Returns the folder of the newest step that has data but no manifest, or "" if there is none or a
/// complete checkpoint is as new. Saving never leaves such a folder: somebody removed the manifest.
std::string brokenCheckpoint(const std::string &out);

/// Removes what interrupted saves and removals left. The run holds the lock of `out`.
void removeUnfinished(const std::string &out);

/// Returns the position of the checkpoint that `how` (--resume's value) refers to, or
/// nothing if there is none or it cannot be read.
std::optional<Position> newestPosition(const std::string &out, const std::string &how);

/// Saves a checkpoint. Every rank calls it. `form`: "sharded", "full" (rank 0 writes
/// everything) or "both" (sharded, and the full state beside it). The full form is a
/// model folder as written by exportTensors(), in files of at most `fileBytes`, with
/// the optimizer state beside it. Older checkpoints beyond `keep` are removed once the
/// new one is on disk. On failure nothing remains of the new one and all ranks throw.
/// Checksums cover chunks of `chunkBytes`, a multiple of 64.
void saveCheckpoint(const ShaleProgram &program, int rank, const StateReader &state, Peers &peers,
                    const std::string &out, const std::string &form, int64_t fileBytes,
                    int64_t keep, Position position, int64_t chunkBytes = savedChunkBytes);

/// Loads a checkpoint. Every rank calls it. `how` is --resume's value. Returns false if
/// the run starts from the beginning. With "auto" a damaged newest checkpoint is
/// skipped for the one before it; otherwise damage is exit code 65.
bool loadCheckpoint(const ShaleProgram &program, int rank, State &state, Peers &peers,
                    const std::string &out, const std::string &how, Position &position);

} // namespace shale::rt

#endif
