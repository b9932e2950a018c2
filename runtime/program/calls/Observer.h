// What is told of each call of compiled code, one by one (ShaleRank::observer).
#ifndef SHALE_RUNTIME_PROGRAM_CALLS_OBSERVER_H
#define SHALE_RUNTIME_PROGRAM_CALLS_OBSERVER_H

#include "shale/Runtime.h"

#include <cstdint>
#include <vector>

namespace shale::rt {

/// A buffer of a call: `count` elements of `type`. A count of 0: the call does not give the size.
struct Operand {
  const void *at;
  int64_t count = 0;
  int32_t type = SHALE_F32; // ShaleType
};

/// The functions are called on the main thread: after() after the call that they are told of was
/// executed or enqueued, the others before.
class Observer {
public:
  virtual ~Observer() = default;
  /// A kernel, a matmul or attention; `what` names it.
  virtual void call(const char *what, const std::vector<Operand> &reads,
                    const std::vector<Operand> &writes) = 0;
  /// `source` is null for a fill.
  virtual void copy(const void *target, const void *source, int64_t bytes) = 0;
  virtual void start(int32_t site, const void *send, const void *recv, int64_t count,
                     int32_t type) = 0;
  virtual void wait(int32_t site) = 0;
  virtual void startCopy(int32_t index, const void *target, const void *source, int64_t bytes) = 0;
  virtual void waitCopy(int32_t index) = 0;
  virtual void after() {}
};

} // namespace shale::rt

#endif
