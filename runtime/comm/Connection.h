// Connects a rank with its peers.
#ifndef SHALE_RUNTIME_COMM_CONNECTION_H
#define SHALE_RUNTIME_COMM_CONNECTION_H

#include "runtime/comm/Collectives.h"
#include "runtime/comm/Peers.h"
#include "runtime/comm/Rendezvous.h"
#include "runtime/device/Device.h"

#include <functional>
#include <memory>

namespace shale::rt {

struct Connection {
  std::unique_ptr<Peers> peers;
  std::unique_ptr<Collectives> collectives;
  /// For threads that write checkpoints while training goes on; null if not asked for.
  std::unique_ptr<Peers> writers;
};

/// Connects this rank with its peers; a single rank has none. `timeout` is in seconds and holds
/// for every exchange. `staged` collectives of a device with its own memory pass through the
/// host's. `writers`: whether to make Connection::writers. `admit` is called once this rank can
/// exchange texts with its peers, before anything that depends on the program; not for a single
/// rank.
using Admit = std::function<void(Peers &)>;
Connection connect(const ShaleProgram &program, const Rendezvous &rendezvous, double timeout,
                   Device &device, bool staged, bool writers, const Admit &admit);

/// Returns collectives between the devices of all ranks, for a device that has them. Every rank
/// calls it. A program for such a device is linked with another definition.
std::unique_ptr<Collectives> connectDevices(const ShaleProgram &program, int rank, Peers &peers,
                                            Device &device, double timeout);

} // namespace shale::rt

#endif
