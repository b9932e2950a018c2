// Sharded checkpoints: DIR/checkpoints/step-N/{manifest.json,
// shard-R.safetensors}.
//
// Commit: every rank writes and syncs its shard in a temporary folder; rank 0
// writes the manifest with a checksum of every piece, syncs it and the folder,
// renames the folder to its name and syncs the parent. A folder without
// ".tmp-" in its name is complete.
#ifndef SHALE_RUNTIME_CHECKPOINT_CHECKPOINT_H
#define SHALE_RUNTIME_CHECKPOINT_CHECKPOINT_H

#include "runtime/comm/Communicator.h"
#include "shale/Runtime.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shale::rt {

/// Where the run stands: all that is not in the state block.
struct Position {
  int64_t step = 0; // to run next
  int64_t updates = 0; // of the optimizer so far: steps less those that were skipped
  int64_t row = 0;  // next row of the data's order
  uint64_t seed = 0;
  std::map<std::string, std::string> flags; // that decided what was trained
  std::string folder; // that it was read from
};

/// Folders of the complete checkpoints below `out`, oldest first.
std::vector<std::string> listCheckpoints(const std::string &out);

/// The folder of a step with data but no manifest, if no complete checkpoint is as
/// new; else empty. Saving leaves none: someone took the manifest away.
std::string brokenCheckpoint(const std::string &out);

/// Where the checkpoint that `how` (--resume's value) means stands; nothing where
/// there is none or it cannot be read.
std::optional<Position> newestPosition(const std::string &out,
                                       const std::string &how);

/// Every rank calls it. `form`: "sharded", "full" (rank 0 writes all of it) or
/// "both" (sharded, and the full state beside it). The full form is a model's folder
/// as exportTensors() writes it, in files of at most `fileBytes`, with the optimizer's
/// state beside it. Older checkpoints beyond
/// `keep` are removed when the new one is safe. On failure nothing remains of
/// the new one and all ranks throw.
void saveCheckpoint(const ShaleProgram &program, int rank, const char *state,
                    Communicator &communicator, const std::string &out,
                    const std::string &form, int64_t fileBytes, int64_t keep,
                    Position position);

/// Every rank calls it. `how` is --resume's value. False: start anew. A damaged
/// newest checkpoint is passed over for the one before it with "auto";
/// otherwise damage is exit code 65.
bool loadCheckpoint(const ShaleProgram &program, int rank, char *state,
                    Communicator &communicator, const std::string &out,
                    const std::string &how, Position &position);

} // namespace shale::rt

#endif
