// metrics.jsonl and the progress line.
#include "runtime/metrics/Metrics.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Json.h"

#include <cmath>

namespace shale::rt {

/// A number as JSON text, with enough digits to read the same float back; JSON has no
/// infinity. A step allocates nothing, so the text is in an array.
struct Number {
  char text[32];
  explicit Number(double value) {
    if (std::isfinite(value))
      snprintf(text, sizeof(text), "%.9g", value);
    else
      snprintf(text, sizeof(text), "null");
  }
};

/// Whether a line is of a step before `firstStep`.
static bool isBefore(const std::string &line, int64_t firstStep) {
  try {
    nlohmann::json object = parseJson(line);
    return object.is_object() && object.contains("step") && object["step"].is_number_integer() &&
           object["step"] < firstStep;
  } catch (const std::exception &) {
    return false; // no line of metrics
  }
}

Metrics::Metrics(const std::string &path, int64_t firstStep) {
  replaceFile(path, 0666, [&](OutputFile &kept) {
    if (firstStep <= 0 || !exists(path))
      return;
    LineReader lines(path);
    for (std::string line; lines.next(line);)
      if (isBefore(line, firstStep)) {
        line += '\n';
        kept.append(line.data(), line.size());
      }
  });
  file.emplace(path);
}

void Metrics::record(const StepMetrics &m) {
  char line[1024];
  int size = 0;
  auto add = [&](const char *pattern, auto... values) {
    size += snprintf(line + size, sizeof(line) - size, pattern, values...);
  };
  add("{\"step\": %lld, \"loss\": %s, \"grad_norm\": %s, \"lr\": %s, "
      "\"tokens\": %lld, \"tokens_per_s\": %s, \"memory_bytes\": %lld, "
      "\"comm_bytes\": %lld, \"tflops\": %s",
      (long long)m.step, Number(m.loss).text, Number(m.gradNorm).text, Number(m.lr).text,
      (long long)m.tokens, Number(m.seconds > 0 ? m.tokens / m.seconds : 0).text,
      (long long)m.memoryBytes, (long long)m.commBytes, Number(m.tflops).text);
  if (m.mfu > 0)
    add(", \"mfu\": %s", Number(m.mfu).text);
  if (m.scaled)
    add(", \"loss_scale\": %s, \"skipped\": %s", Number(m.lossScale).text,
        m.skipped ? "true" : "false");
  else if (m.limited)
    add(", \"skipped\": %s", m.skipped ? "true" : "false");
  if (m.evaluated)
    add(", \"eval_loss\": %s", Number(m.evalLoss).text);
  add("%s", "}\n");
  file->append(line, size);
}

Speed::Speed(const StepMetrics &m) {
  double count = static_cast<double>(m.samples ? m.samples : m.tokens);
  snprintf(text, sizeof(text), m.samples ? "%.1f samples/s" : "%.0f tokens/s",
           m.seconds > 0 ? count / m.seconds : 0);
}

void printProgress(const StepMetrics &m, int64_t steps) {
  char mfu[24] = "";
  if (m.mfu > 0)
    snprintf(mfu, sizeof(mfu), " | mfu %.1f %%", 100 * m.mfu);
  printf("step %lld/%lld | loss %.5f | norm %.4f | lr %.3e | %.1f ms | "
         "%s | %.2f MiB%s\n",
         (long long)m.step + 1, (long long)steps, m.loss, m.gradNorm, m.lr, m.seconds * 1e3,
         Speed(m).text, m.memoryBytes / 1048576.0, mfu);
}

} // namespace shale::rt
