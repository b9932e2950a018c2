// Gloo's contexts over a mesh of authenticated connections. Gloo's own TCP transport takes the
// first bytes of anyone who connects for those of a rank.
#ifndef SHALE_RUNTIME_COMM_GLOO_TRANSPORT_H
#define SHALE_RUNTIME_COMM_GLOO_TRANSPORT_H

#include "runtime/comm/mesh/Mesh.h"

#include <gloo/context.h>
#include <memory>
#include <vector>

namespace shale::rt {

using GlooContext = std::shared_ptr<gloo::Context>;

/// Returns a context of a group of ranks: `ranks` are their ranks in the mesh, in the order of the
/// group. Every group has its own channel. Algorithms of Gloo that use unbound buffers work with
/// it.
GlooContext makeContext(std::shared_ptr<Mesh> mesh, uint32_t channel, std::vector<int> ranks);

} // namespace shale::rt

#endif
