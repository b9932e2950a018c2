// Connections over Gloo's TCP transport.
#ifndef SHALE_RUNTIME_COMM_GLOO_GLOO_H
#define SHALE_RUNTIME_COMM_GLOO_GLOO_H

#include "runtime/comm/Connection.h"
#include "runtime/core/Error.h"

#include <chrono>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <vector>

namespace shale::rt {

using GlooContext = std::shared_ptr<gloo::rendezvous::Context>;

/// Connects all ranks (exchanges between steps), calls `admit`, and with `collectives` connects the
/// ranks along each axis.
Connection connectGloo(const ShaleProgram &program, const Rendezvous &rendezvous, double timeout,
                       bool collectives, const Admit &admit);

std::unique_ptr<Peers> makeGlooPeers(GlooContext world, std::chrono::milliseconds timeout);
/// `perAxis` holds a context for each axis of the mesh, null where the axis has one rank.
std::unique_ptr<Collectives> makeGlooCollectives(const ShaleProgram &program,
                                                 std::vector<GlooContext> perAxis,
                                                 std::chrono::milliseconds timeout);

/// Opens the store in which ranks publish their addresses: a folder (FileStore) or
/// rank 0's TCP port.
std::unique_ptr<gloo::rendezvous::Store> openStore(const Rendezvous &rendezvous,
                                                   std::chrono::milliseconds timeout);

/// Returns the address of this host from which rank 0's host is reached.
std::string ownAddress(const Rendezvous &rendezvous);

/// Runs `body`; a failure of Gloo throws with exit code 76 and names `what`.
template <typename Body>
void orPeerFailure(const char *what, std::chrono::milliseconds timeout, Body body) {
  try {
    body();
  } catch (const Error &) {
    throw;
  } catch (const std::exception &error) {
    fail(SHALE_EXIT_PEER, "%s failed: a peer ended or did not answer within %.1f s (%s)", what,
         timeout.count() / 1000.0, error.what());
  }
}

} // namespace shale::rt

#endif
