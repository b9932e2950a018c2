// TensorBoard events. Record: length u64, masked CRC of it u32, data, masked CRC of
// the data u32. Event: wall_time = 1 (double), step = 2, file_version = 3, summary =
// 5 { value = 1 { tag = 1, simple_value = 2 (float) } }, session_log = 7 { status =
// 1 }; names and field numbers are from tensorflow's event.proto and summary.proto.
#include "runtime/metrics/TensorBoard.h"
#include "runtime/core/Error.h"

#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <unistd.h>

namespace shale::rt {

namespace {
constexpr std::array<uint32_t, 256> makeTable() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit)
      crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
    table[i] = crc;
  }
  return table;
}

/// A message in a buffer of fixed size; what does not fit is left out as a whole.
class Message {
public:
  void key(int field, int wire) { byte(static_cast<unsigned char>(field << 3 | wire)); }
  void varint(uint64_t value) {
    for (; value > 127; value >>= 7)
      byte(static_cast<unsigned char>(value | 128));
    byte(static_cast<unsigned char>(value));
  }
  template <typename T> void fixed(T value) { bytes(&value, sizeof(value)); }
  void text(int field, const char *value) { part(field, value, std::strlen(value)); }
  void part(int field, const void *data, size_t size) {
    key(field, 2);
    varint(size);
    bytes(data, size);
  }
  const unsigned char *data() const { return buffer; }
  size_t size() const { return used; }

private:
  void byte(unsigned char value) { bytes(&value, 1); }
  void bytes(const void *data, size_t size) {
    if (size > sizeof(buffer) - used)
      return;
    std::memcpy(buffer + used, data, size);
    used += size;
  }
  unsigned char buffer[1024];
  size_t used = 0;
};

Message eventAt(int64_t step) {
  Message event;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  event.key(1, 1);
  event.fixed<double>(now.tv_sec + 1e-9 * now.tv_nsec);
  event.key(2, 0);
  event.varint(step);
  return event;
}
} // namespace

uint32_t maskedCrc32c(const unsigned char *data, size_t bytes) {
  static constexpr std::array<uint32_t, 256> table = makeTable();
  uint32_t crc = ~0u;
  for (size_t i = 0; i < bytes; ++i)
    crc = (crc >> 8) ^ table[(crc ^ data[i]) & 255];
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

TensorBoard::TensorBoard(const std::string &folder, int64_t firstStep) {
  char host[256] = "host";
  gethostname(host, sizeof(host) - 1);
  file.emplace(folder + format("/events.out.tfevents.%010lld.%s.%d.%lld", (long long)time(nullptr),
                               host, (int)getpid(), (long long)firstStep));
  Message version = eventAt(0);
  version.text(3, "brain.Event:2");
  write(version.data(), version.size());
  if (firstStep > 0) {
    Message start = eventAt(firstStep), status;
    status.key(1, 0);
    status.varint(1); // START
    start.part(7, status.data(), status.size());
    write(start.data(), start.size());
  }
}

void TensorBoard::record(const StepMetrics &m) {
  Message summary;
  auto scalar = [&](const char *tag, double value) {
    Message entry;
    entry.text(1, tag);
    entry.key(2, 5);
    entry.fixed<float>(static_cast<float>(value));
    summary.part(1, entry.data(), entry.size());
  };
  scalar("loss", m.loss);
  scalar("grad_norm", m.gradNorm);
  scalar("lr", m.lr);
  scalar("tokens_per_s", m.seconds > 0 ? m.tokens / m.seconds : 0);
  scalar("memory_bytes", static_cast<double>(m.memoryBytes));
  scalar("comm_bytes", static_cast<double>(m.commBytes));
  scalar("tflops", m.tflops);
  if (m.mfu > 0)
    scalar("mfu", m.mfu);
  if (m.scaled)
    scalar("loss_scale", m.lossScale);
  if (m.evaluated)
    scalar("eval_loss", m.evalLoss);
  if (m.rankSeconds) {
    scalar("slowest_rank", m.slowestRank);
    scalar("slowest_rank_seconds", (*m.rankSeconds)[m.slowestRank]);
  }
  Message event = eventAt(m.step);
  event.part(5, summary.data(), summary.size());
  write(event.data(), event.size());
}

void TensorBoard::write(const unsigned char *event, size_t bytes) {
  unsigned char record[sizeof(Message) + 16]; // written at once, so that a kill leaves no part
  uint64_t length = bytes;
  std::memcpy(record, &length, 8);
  uint32_t crc = maskedCrc32c(record, 8);
  std::memcpy(record + 8, &crc, 4);
  std::memcpy(record + 12, event, bytes);
  crc = maskedCrc32c(event, bytes);
  std::memcpy(record + 12 + bytes, &crc, 4);
  file->append(record, bytes + 16);
}

} // namespace shale::rt
