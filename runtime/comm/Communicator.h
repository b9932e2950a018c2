// Collectives of compiled code, and the exchanges that the runtime itself needs
// between steps (barrier, agreement, gathering of texts and of weights).
#ifndef SHALE_RUNTIME_COMM_COMMUNICATOR_H
#define SHALE_RUNTIME_COMM_COMMUNICATOR_H

#include "shale/Runtime.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shale::rt {

struct Rendezvous;

class Communicator {
public:
  virtual ~Communicator() = default;

  // Called by compiled code. All ranks start collectives in the same order, with at
  // most one per site in flight. They do not throw: failure ends the process with 76.
  virtual void start(int32_t site, ShaleCollectiveKind kind, const void *send, void *recv,
                     int64_t count, ShaleType type) = 0;
  virtual void wait(int32_t site) = 0;
  /// Bytes that this rank has sent in collectives of compiled code.
  virtual int64_t bytesSent() const = 0;

  // Called by the runtime, on every rank in the same order; failure throws.
  /// Returns the largest value over all ranks.
  virtual int64_t agree(int64_t value) = 0;
  /// Returns every rank's text on rank 0, in rank order; empty on other ranks.
  virtual std::vector<std::string> gather(const std::string &text) = 0;
  virtual void send(int to, const void *data, int64_t bytes) = 0;
  virtual void receive(int from, void *data, int64_t bytes) = 0;
  void barrier() { agree(0); }
};

/// Returns the bytes per rank of the receive buffer for reductions.
int64_t scratchBytes(const ShaleProgram &program);

/// Connects this rank with its peers; a single rank has none.
std::unique_ptr<Communicator> connect(const ShaleProgram &program, const Rendezvous &rendezvous,
                                      double timeout);

/// Computes target = sum of the `count` sources in order: in f32 for floats up to 32
/// bits (rounded once), in the type itself for f64 and integers. Each has `elements`.
void sumInOrder(ShaleType type, const void *const *sources, int count, void *target,
                int64_t elements);

} // namespace shale::rt

#endif
