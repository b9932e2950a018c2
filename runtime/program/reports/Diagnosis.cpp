// Follows values that are not finite to the call that made them.
#include "runtime/program/reports/Diagnosis.h"
#include "runtime/comm/Collectives.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <set>
#include <tuple>

namespace shale::rt {

namespace {
template <typename Float> Badness worstFloat(const void *data, int64_t count) {
  auto *values = static_cast<const Float *>(data);
  Badness worst = Badness::Finite;
  for (int64_t i = 0; i < count && worst != Badness::NaN; ++i)
    if (!std::isfinite(values[i]))
      worst = std::max(worst, std::isnan(values[i]) ? Badness::NaN
                              : values[i] > 0       ? Badness::Inf
                                                    : Badness::NegativeInf);
  return worst;
}

/// `exponent`: the bits of the exponent.
Badness worstHalf(const void *data, int64_t count, uint16_t exponent) {
  auto *values = static_cast<const uint16_t *>(data);
  Badness worst = Badness::Finite;
  for (int64_t i = 0; i < count && worst != Badness::NaN; ++i)
    if ((values[i] & exponent) == exponent)
      worst = std::max(worst, (values[i] & 0x7fff) != exponent ? Badness::NaN
                              : (values[i] & 0x8000) == 0      ? Badness::Inf
                                                               : Badness::NegativeInf);
  return worst;
}

/// 8-bit floats: `exponent` has the bits of the exponent. If it has all bits but the sign, its only
/// number that is not finite is NaN.
Badness worstByte(const void *data, int64_t count, uint8_t exponent) {
  auto *values = static_cast<const uint8_t *>(data);
  Badness worst = Badness::Finite;
  for (int64_t i = 0; i < count && worst != Badness::NaN; ++i)
    if ((values[i] & exponent) == exponent)
      worst = std::max(worst, (values[i] & 0x7f) != exponent || exponent == 0x7f ? Badness::NaN
                              : (values[i] & 0x80) == 0 ? Badness::Inf
                                                        : Badness::NegativeInf);
  return worst;
}

const char *nameOfBadness(Badness worst) {
  static const char *const names[] = {"a finite value", "-Inf", "Inf", "NaN"};
  return names[static_cast<int>(worst)];
}

} // namespace

Badness worstOf(const void *data, int64_t count, int32_t type) {
  switch (type) {
  case SHALE_F32:
    return worstFloat<float>(data, count);
  case SHALE_F64:
    return worstFloat<double>(data, count);
  case SHALE_BF16:
    return worstHalf(data, count, 0x7f80);
  case SHALE_F16:
    return worstHalf(data, count, 0x7c00);
  case SHALE_F8_E4M3:
    return worstByte(data, count, 0x7f);
  case SHALE_F8_E5M2:
    return worstByte(data, count, 0x7c);
  default:
    return Badness::Finite;
  }
}

bool Diagnosis::Range::overlaps(const void *at) const {
  auto *begin = static_cast<const char *>(operand.at);
  int64_t bytes = std::max<int64_t>(1, operand.count * sizeOf(static_cast<Dtype>(operand.type)));
  return at >= begin && at < begin + bytes;
}

/// Reads a buffer after all work so far.
Diagnosis::Range Diagnosis::classified(const Operand &operand) {
  Range range{operand};
  int64_t bytes = operand.count * sizeOf(static_cast<Dtype>(operand.type));
  bool isFloat =
      operand.type <= SHALE_F16 || operand.type == SHALE_F8_E4M3 || operand.type == SHALE_F8_E5M2;
  if (bytes <= 0 || !isFloat || !operand.at)
    return range;
  buffer.resize(std::max<size_t>(buffer.size(), bytes));
  rank.device->read(buffer.data(), static_cast<const char *>(operand.at), bytes);
  range.worst = worstOf(buffer.data(), operand.count, operand.type);
  return range;
}

void Diagnosis::begin(const std::string &what, const std::string &node,
                      const std::vector<Operand> &reads, const std::vector<Operand> &writes) {
  Event event;
  event.node = node;
  event.what = what;
  for (const Operand &operand : reads)
    event.reads.push_back(classified(operand));
  for (const Operand &operand : writes)
    event.writes.push_back({operand});
  events.push_back(std::move(event));
  open = true;
}

void Diagnosis::after() {
  if (!open)
    return;
  open = false;
  for (Range &range : events.back().writes)
    range = classified(range.operand);
}

void Diagnosis::call(const char *what, const std::vector<Operand> &reads,
                     const std::vector<Operand> &writes) {
  begin(what, rank.node ? rank.node : "", reads, writes);
}

/// A copy has no type: it is read as what wrote its source.
void Diagnosis::beginCopy(const void *target, const void *source, int64_t bytes) {
  int32_t type = SHALE_F32;
  int64_t writer = source ? writerOf(source, static_cast<int64_t>(events.size())) : -1;
  if (writer >= 0)
    for (const Range &range : events[writer].writes)
      if (range.overlaps(source))
        type = range.operand.type;
  int64_t count = bytes / sizeOf(static_cast<Dtype>(type));
  std::vector<Operand> reads;
  if (source)
    reads.push_back({source, count, type});
  begin("copy", "", reads, {{target, count, type}});
}

void Diagnosis::copy(const void *target, const void *source, int64_t bytes) {
  beginCopy(target, source, bytes);
}

void Diagnosis::startCopy(int32_t index, const void *target, const void *source, int64_t bytes) {
  transfers[index] = {target, source, bytes};
}

void Diagnosis::waitCopy(int32_t index) {
  const Transfer &transfer = transfers[index];
  beginCopy(transfer.target, transfer.source, transfer.bytes);
}

void Diagnosis::start(int32_t site, const void *send, const void *recv, int64_t count,
                      int32_t type) {
  const ShaleSite &what = rank.program->sites[site];
  int64_t whole = count * axisSize(*rank.program, what.axis);
  Operand sent{send, sendsAll(what.kind) ? whole : count, type};
  Operand received{recv, receivesAll(what.kind) ? whole : count, type};
  collectives[site] = {classified(sent), received};
}

/// What was sent may be overwritten by now: its values are those of the start.
void Diagnosis::wait(int32_t site) {
  const ShaleSite &what = rank.program->sites[site];
  auto &[sent, received] = collectives[site];
  begin(kindName(static_cast<ShaleCollectiveKind>(what.kind)), what.name, {}, {received});
  events.back().reads = {sent};
  events.back().collective = true;
}

int64_t Diagnosis::writerOf(const void *at, int64_t before) const {
  for (int64_t e = before; e-- > 0;)
    for (const Range &range : events[e].writes)
      if (range.overlaps(at))
        return e;
  return -1;
}

std::string Diagnosis::finding(const void *result) const {
  struct Origin {
    int64_t event;
    std::string external; // memory that no call wrote, and what it held
    bool isMask, isForeign;
  };
  std::vector<Origin> origins;
  std::vector<int64_t> pending{writerOf(result, static_cast<int64_t>(events.size()))};
  std::set<int64_t> seen{-1};
  while (!pending.empty()) {
    int64_t index = pending.back();
    pending.pop_back();
    if (!seen.insert(index).second)
      continue;
    const Event &event = events[index];
    Badness made = Badness::Finite;
    for (const Range &range : event.writes)
      made = std::max(made, range.worst);
    if (made == Badness::Finite)
      continue;
    bool fromOther = false;
    for (const Range &range : event.reads) {
      if (range.worst == Badness::Finite)
        continue;
      int64_t writer = writerOf(range.operand.at, index);
      if (writer >= 0) {
        pending.push_back(writer);
        fromOther = true;
        continue;
      }
      std::string name = nameOf(range.operand.at);
      std::string external =
          format("%s held %s", name.empty() ? "memory" : name.c_str(), nameOfBadness(range.worst));
      origins.push_back({index, external, range.worst == Badness::NegativeInf, false});
      fromOther = true;
    }
    if (!fromOther)
      origins.push_back({index, "", made == Badness::NegativeInf, event.collective});
  }
  if (origins.empty())
    return "";
  auto order = [](const Origin &x) { return std::make_tuple(x.isForeign, x.isMask, x.event); };
  const Origin &first =
      *std::min_element(origins.begin(), origins.end(),
                        [&](const Origin &x, const Origin &y) { return order(x) < order(y); });
  const Event &event = events[first.event];
  Badness made = Badness::Finite;
  for (const Range &range : event.writes)
    made = std::max(made, range.worst);
  return format("%d %d %lld ", first.isForeign, first.isMask, (long long)first.event) +
         format("%s%s%s (%s) gave %s, and %s", event.collective ? "collective " : "node ",
                event.node.empty() ? "" : format("'%s'", event.node.c_str()).c_str(),
                event.node.empty() ? "without a name" : "", event.what.c_str(), nameOfBadness(made),
                first.external.empty() ? "all that it read was finite" : first.external.c_str());
}

std::string Diagnosis::choose(const std::vector<std::string> &findings) {
  std::tuple<int, int, long long, size_t> best;
  std::string text;
  for (size_t r = 0; r < findings.size(); ++r) {
    int foreign = 0, mask = 0, length = 0;
    long long event = 0;
    // Whether the value came from another rank, or from a mask; the number of the call.
    if (sscanf(findings[r].c_str(), "%d %d %lld %n", &foreign, &mask, &event, &length) != 3)
      continue;
    std::tuple<int, int, long long, size_t> own{foreign, mask, event, r};
    if (!text.empty() && best <= own)
      continue;
    best = own;
    text = format("on rank %zu, %s", r, findings[r].c_str() + length);
  }
  return text;
}

} // namespace shale::rt
