// Exchanges and collectives of ranks through their hosts, with Gloo.
#ifndef SHALE_RUNTIME_COMM_GLOO_GLOO_H
#define SHALE_RUNTIME_COMM_GLOO_GLOO_H

#include "runtime/comm/Connection.h"
#include "runtime/comm/gloo/Transport.h"
#include "runtime/core/Error.h"

#include <chrono>
#include <new>

namespace shale::rt {

/// Connects this rank with rank 0 and the ranks along each axis (join()), calls `admit`, and makes
/// the groups of the axes with `collectives`, and those of Connection::writers with `writers`.
Connection connectGloo(const ShaleProgram &program, const Rendezvous &rendezvous, double timeout,
                       bool collectives, bool writers, const Admit &admit);

std::unique_ptr<Peers> makeGlooPeers(std::shared_ptr<Mesh> mesh, int ranks,
                                     std::chrono::milliseconds timeout, int group = 0);
/// `perAxis` holds a context for each axis of the mesh, null where the axis has one rank.
std::unique_ptr<Collectives> makeGlooCollectives(const ShaleProgram &program,
                                                 std::vector<GlooContext> perAxis,
                                                 std::chrono::milliseconds timeout);

/// Runs `body`; a failure of another rank throws with exit code 76 and names `what`.
template <typename Body> void orPeerFailure(const char *what, Body body) {
  try {
    body();
  } catch (const std::bad_alloc &) {
    throw;
  } catch (const Error &error) {
    if (error.code != SHALE_EXIT_PEER)
      throw;
    fail(error.code, "%s failed: %s", what, error.what());
  } catch (const std::exception &error) {
    fail(SHALE_EXIT_PEER, "%s failed: %s", what, error.what());
  }
}

} // namespace shale::rt

#endif
