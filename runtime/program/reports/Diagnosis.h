// Finds the call that made the first non-finite value of a step.
//
// The step is run again on the same micro-batches. Its update was not applied, so the state is that
// of the first run. Each operand of each call is read and classified: before the call what it
// reads, after it what it has written. From the loss or the norm, the values that are not finite
// are then followed back to the call that made them out of finite ones. Values that do not reach
// the loss are no cause: a mask may hold -Inf.
#ifndef SHALE_RUNTIME_PROGRAM_REPORTS_DIAGNOSIS_H
#define SHALE_RUNTIME_PROGRAM_REPORTS_DIAGNOSIS_H

#include "runtime/core/Rank.h"
#include "runtime/device/Device.h"
#include "runtime/program/calls/Observer.h"

#include <functional>
#include <map>
#include <string>

namespace shale::rt {

/// Ordered by how likely a value is a mistake.
enum class Badness { Finite, NegativeInf, Inf, NaN };

/// Returns the worst value among elements in memory of the process. Integers are finite.
Badness worstOf(const void *data, int64_t count, int32_t type);

class Diagnosis final : public Observer {
public:
  /// Names memory that no call has written: a parameter, an input; "" if it is not known.
  using Namer = std::function<std::string(const void *at)>;
  Diagnosis(ShaleRank &rank, Namer nameOf) : rank(rank), nameOf(std::move(nameOf)) {}

  void call(const char *what, const std::vector<Operand> &reads,
            const std::vector<Operand> &writes) override;
  void copy(const void *target, const void *source, int64_t bytes) override;
  void start(int32_t site, const void *send, const void *recv, int64_t count,
             int32_t type) override;
  void wait(int32_t site) override;
  void startCopy(int32_t index, const void *target, const void *source, int64_t bytes) override;
  void waitCopy(int32_t index) override;
  void after() override;

  /// Returns this rank's finding about the value at `result`, for choose(); "" if no call has
  /// written a value there that is not finite.
  std::string finding(const void *result) const;
  /// Returns the finding that comes first in the order of calls, of the findings of all ranks, and
  /// names its rank. "" if all are empty.
  static std::string choose(const std::vector<std::string> &findings);

private:
  struct Range {
    Operand operand;
    Badness worst = Badness::Finite;
    bool overlaps(const void *at) const;
  };
  struct Event {
    std::string node, what;
    std::vector<Range> reads, writes;
    bool collective = false;
  };
  struct Transfer {
    const void *target, *source;
    int64_t bytes;
  };

  Range classified(const Operand &operand);
  void begin(const std::string &what, const std::string &node, const std::vector<Operand> &reads,
             const std::vector<Operand> &writes);
  void beginCopy(const void *target, const void *source, int64_t bytes);
  /// Returns the index of the last event before `before` that wrote to an address; -1 without one.
  int64_t writerOf(const void *at, int64_t before) const;

  ShaleRank &rank;
  Namer nameOf;
  std::vector<Event> events;
  bool open = false; // the last event's call is not done
  std::vector<char> buffer;
  std::map<int32_t, std::pair<Range, Operand>> collectives; // by site: sent, to be received
  std::map<int32_t, Transfer> transfers;
};

} // namespace shale::rt

#endif
