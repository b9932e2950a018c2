// The whole parameters under PyTorch's names, in one file or, when they are large,
// in several with an index, as Hugging Face's libraries name and read them.
#ifndef SHALE_RUNTIME_CHECKPOINT_EXPORT_H
#define SHALE_RUNTIME_CHECKPOINT_EXPORT_H

#include "runtime/checkpoint/Kept.h"
#include "runtime/comm/Communicator.h"
#include "shale/Runtime.h"

namespace shale::rt {

struct ExportOptions {
  std::string folder;
  /// A file is at most so large unless one tensor is; a second one begins with a
  /// tensor that does not fit.
  int64_t fileBytes = int64_t(5) * 1000 * 1000 * 1000;
  /// Parameters to model.safetensors, every name of a tied one; else optimizer state
  /// to optimizer.safetensors, as "role/name".
  bool optimizer = false;
  /// Buffers that the model's state_dict leaves out, too: a checkpoint needs them.
  bool whole = false;
  std::vector<KeptTensor> kept; // on rank 0
};

/// Every rank calls it; rank 0 writes. Shards travel in pieces of at most 512 KiB,
/// so that no rank ever holds a whole parameter beyond its own. Files appear under
/// their names only when all of them are whole: NAME.safetensors, or
/// NAME-00001-of-0000N.safetensors and, last, NAME.safetensors.index.json. Returns
/// the names of the files with tensors, on rank 0.
std::vector<std::string> exportTensors(const ShaleProgram &program, int rank,
                                       const char *state,
                                       Communicator &communicator,
                                       const ExportOptions &options);

} // namespace shale::rt

#endif
