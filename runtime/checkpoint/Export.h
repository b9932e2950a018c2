// Export of whole parameters under PyTorch's names, in one file or, if they are large,
// in several files with an index, as Hugging Face's libraries name and read them.
#ifndef SHALE_RUNTIME_CHECKPOINT_EXPORT_H
#define SHALE_RUNTIME_CHECKPOINT_EXPORT_H

#include "runtime/checkpoint/Kept.h"
#include "runtime/comm/Peers.h"
#include "runtime/device/State.h"
#include "shale/Runtime.h"

namespace shale::rt {

struct ExportOptions {
  std::string folder;
  /// Largest size of a file, unless a single tensor is larger. A tensor that does not
  /// fit starts a new file.
  int64_t fileBytes = int64_t(5) * 1000 * 1000 * 1000;
  /// False: writes parameters to model.safetensors, a tied one under each of its names.
  /// True: writes optimizer state to optimizer.safetensors, as "role/name".
  bool optimizer = false;
  /// Whether to include buffers that are not in the model's state_dict: a checkpoint needs them.
  bool whole = false;
  std::vector<KeptTensor> kept; // on rank 0
};

/// Exports tensors. Every rank calls it; rank 0 writes. Shards are sent in pieces of at
/// most 512 KiB, so that no rank holds another whole parameter. Files get their final
/// names only when all of them are complete: NAME.safetensors, or
/// NAME-00001-of-0000N.safetensors and, last, NAME.safetensors.index.json. Returns
/// the files on rank 0, the index last.
std::vector<WrittenFile> exportTensors(const ShaleProgram &program, int rank,
                                       const StateReader &state, Peers &peers,
                                       const ExportOptions &options);

} // namespace shale::rt

#endif
