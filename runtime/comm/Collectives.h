// Collectives of compiled code, along the axes of the mesh.
#ifndef SHALE_RUNTIME_COMM_COLLECTIVES_H
#define SHALE_RUNTIME_COMM_COLLECTIVES_H

#include "shale/Runtime.h"

#include <cstdint>
#include <vector>

namespace shale::rt {

class Memory;

/// A collective of compiled code, as Collectives::start takes it.
struct Request {
  int32_t site;
  ShaleCollectiveKind kind;
  const char *send;
  char *recv;
  int64_t count; // elements of the slice of one rank; of an all-reduce, all elements
  ShaleType type;
  const char *node = nullptr; // the node of the model that ran before it; null: not known
};

/// Collectives on device memory. All ranks start them in the same order, with at most one per site
/// in flight. The calls do not throw: failure ends the process with exit code 76.
class Collectives {
public:
  virtual ~Collectives() = default;
  /// Starts the collective of a site, with the buffers and the count of include/shale/Runtime.h.
  /// Nothing else may access the buffers until wait(site).
  virtual void start(int32_t site, ShaleCollectiveKind kind, const void *send, void *recv,
                     int64_t count, ShaleType type) = 0;
  /// Makes all work that is enqueued later wait for the collective of a site.
  virtual void wait(int32_t site) = 0;
  /// Bytes that this rank has sent for a site, counted where they are sent. Read between steps,
  /// when all collectives have been waited for.
  virtual int64_t bytesSent(int32_t site) const = 0;
  /// Says which blocks of device memory hold the operands of collectives. Every rank calls it at
  /// most once, before the first collective. Blocks must live until withdrawMemory().
  virtual void announceMemory(const std::vector<const Memory *> &) {}
  /// Called when all collectives are complete and none follows.
  virtual void withdrawMemory() {}
  /// Says where the node of the model that runs now is kept, for messages.
  virtual void watchNode(const char *const *) {}
  /// An exchange between the processes has failed. If a collective is in flight, gives its watchdog
  /// time to end the process with a message that names the collective.
  virtual void awaitDiagnosis() {}
};

/// Returns "all-gather".
const char *kindName(ShaleCollectiveKind kind);

/// A row of shale/Collectives.def.
struct CollectiveTraits {
  const char *name;
  bool sendsAll, receivesAll, sums;
};
const CollectiveTraits &traitsOf(int32_t kind);

/// Whether the operand, or the result, has `count` elements for each rank of the axis.
inline bool sendsAll(int32_t kind) { return traitsOf(kind).sendsAll; }
inline bool receivesAll(int32_t kind) { return traitsOf(kind).receivesAll; }
/// Whether elements of all ranks are added.
inline bool sums(int32_t kind) { return traitsOf(kind).sums; }
/// Whether operand and result have `count` elements in all.
inline bool keepsShape(int32_t kind) { return !sendsAll(kind) && !receivesAll(kind); }
/// Whether the operand is a slice of the result.
inline bool gathers(int32_t kind) { return receivesAll(kind) && !sendsAll(kind); }

/// Returns the bytes that this rank has sent for all sites.
int64_t bytesSent(const ShaleProgram &program, const Collectives &collectives);

/// Returns the bytes per rank of the receive buffer for reductions.
int64_t scratchBytes(const ShaleProgram &program);

/// Computes target = sum of the `count` sources in order: in f32 for floats up to 32
/// bits (rounded once), in the type itself for f64 and integers. Each has `elements`.
void sumInOrder(ShaleType type, const void *const *sources, int count, void *target,
                int64_t elements);

} // namespace shale::rt

#endif
