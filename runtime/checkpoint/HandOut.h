// Pieces of a manifest on their way between rank 0, which reads and writes it, and the others.
//
// A checkpoint of N ranks has some pieces per parameter and rank. No rank holds all of them: rank 0
// reads and writes one at a time, and each rank gets those that it reads.
#ifndef SHALE_RUNTIME_CHECKPOINT_HANDOUT_H
#define SHALE_RUNTIME_CHECKPOINT_HANDOUT_H

#include "runtime/checkpoint/Manifest.h"
#include "runtime/checkpoint/StateLayout.h"
#include "runtime/comm/Peers.h"

#include <functional>

namespace shale::rt {

/// Whether a stored piece may have elements [begin, end) of a box.
bool mayShare(const StoredPiece &stored, const Box &box, int64_t begin, int64_t end);

/// Returns the manifest of a checkpoint with the pieces that this rank reads. Every rank calls it.
/// `inspect`: called on rank 0 for each piece. Fails with exit code 65 on rank 0 if the manifest is
/// damaged; returns nothing on the others.
std::optional<Manifest> handOut(const ShaleProgram &program, int rank, Peers &peers,
                                const std::string &folder,
                                const std::function<void(const StoredPiece &)> &inspect);

/// Calls `visit` on rank 0 for the pieces of all ranks, in the order of ranks. Every rank calls it.
void collect(int rank, int ranks, Peers &peers, const Share &own,
             const std::function<void(const StoredPiece &)> &visit);

} // namespace shale::rt

#endif
