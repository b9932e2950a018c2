// Communicator over Gloo's TCP transport.
#ifndef SHALE_RUNTIME_COMM_GLOO_GLOO_H
#define SHALE_RUNTIME_COMM_GLOO_GLOO_H

#include "runtime/comm/Communicator.h"
#include "runtime/comm/Rendezvous.h"

#include <chrono>
#include <gloo/rendezvous/store.h>

namespace shale::rt {

std::unique_ptr<Communicator> connectGloo(const ShaleProgram &program, const Rendezvous &rendezvous,
                                          double timeout);

/// Opens the store in which ranks publish their addresses: a folder (FileStore) or
/// rank 0's TCP port.
std::unique_ptr<gloo::rendezvous::Store> openStore(const Rendezvous &rendezvous,
                                                   std::chrono::milliseconds timeout);

/// Returns the address of this host from which rank 0's host is reached.
std::string ownAddress(const Rendezvous &rendezvous);

} // namespace shale::rt

#endif
