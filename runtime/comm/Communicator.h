// Collectives of compiled code, and the few exchanges the runtime itself needs
// between steps (barrier, agreement, gathering of texts and of weights).
#ifndef SHALE_RUNTIME_COMM_COMMUNICATOR_H
#define SHALE_RUNTIME_COMM_COMMUNICATOR_H

#include "shale/Runtime.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace shale::rt {

struct Place;

class Communicator {
public:
  virtual ~Communicator() = default;

  // Of compiled code. One rank starts collectives in one order, at most one a
  // site at a time; they do not throw: failure ends the process with 76.
  virtual void start(int32_t site, ShaleCollectiveKind kind, const void *send,
                     void *recv, int64_t count, ShaleType type) = 0;
  virtual void wait(int32_t site) = 0;
  /// Bytes that collectives of compiled code sent from this rank so far.
  virtual int64_t bytesSent() const = 0;

  // Of the runtime, called by every rank in one order; failure throws.
  /// Largest value of all ranks.
  virtual int64_t agree(int64_t value) = 0;
  /// Every rank's text on rank 0, in rank order; empty elsewhere.
  virtual std::vector<std::string> gather(const std::string &text) = 0;
  virtual void send(int to, const void *data, int64_t bytes) = 0;
  virtual void receive(int from, void *data, int64_t bytes) = 0;
  void barrier() { agree(0); }
};

/// Bytes of the receive buffer that reductions use on a rank.
int64_t scratchBytes(const ShaleProgram &program);

/// Connects this rank with its peers; a world of one needs none.
std::unique_ptr<Communicator> connect(const ShaleProgram &program,
                                      const Place &place, double timeout);

/// target = sum of the sources in their order: in f32 for floats up to 32 bits
/// (rounded once), in the type itself for f64 and integers.
void sumInOrder(ShaleType type, const void *const *sources, int count,
                void *target, int64_t elements);

} // namespace shale::rt

#endif
