// The full parameters in one file under PyTorch's names.
#ifndef SHALE_RUNTIME_CHECKPOINT_EXPORT_H
#define SHALE_RUNTIME_CHECKPOINT_EXPORT_H

#include "runtime/comm/Communicator.h"
#include "shale/Runtime.h"

namespace shale::rt {

/// Every rank calls it; rank 0 writes. Shards travel in pieces of at most 4
/// MiB, so that no rank ever holds a whole parameter beyond its own. With
/// `everyRole`, optimizer state is written too, as "role/name". The file
/// appears under its name only when it is whole.
void exportModel(const ShaleProgram &program, int rank, const char *state,
                 Communicator &communicator, const std::string &path,
                 bool everyRole);

} // namespace shale::rt

#endif
