// metrics.jsonl and the progress line.
#include "runtime/metrics/Metrics.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

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

Metrics::Metrics(const std::string &path, int64_t firstStep) : path(path) {
  std::string kept;
  if (firstStep > 0 && exists(path)) {
    std::string text = readText(path, int64_t(1) << 32);
    for (size_t at = 0; at < text.size();) {
      size_t end = text.find('\n', at);
      if (end == std::string::npos)
        break; // incomplete last line
      std::string line = text.substr(at, end - at);
      at = end + 1;
      auto object = nlohmann::json::parse(line, nullptr, false);
      if (object.is_object() && object.contains("step") && object["step"].is_number_integer() &&
          object["step"] < firstStep)
        kept += line + "\n";
    }
  }
  replaceFile(path, kept);
  file = fopen(path.c_str(), "ae");
  if (!file)
    fail(SHALE_EXIT_IO, "cannot write '%s': %s", path.c_str(), strerror(errno));
}

Metrics::~Metrics() {
  if (file)
    fclose(file);
}

void Metrics::record(const StepMetrics &m) {
  fprintf(file,
          "{\"step\": %lld, \"loss\": %s, \"grad_norm\": %s, \"lr\": %s, "
          "\"tokens\": %lld, \"tokens_per_s\": %s, \"memory_bytes\": %lld, "
          "\"comm_bytes\": %lld, \"tflops\": %s",
          (long long)m.step, Number(m.loss).text, Number(m.gradNorm).text, Number(m.lr).text,
          (long long)m.tokens, Number(m.seconds > 0 ? m.tokens / m.seconds : 0).text,
          (long long)m.memoryBytes, (long long)m.commBytes, Number(m.tflops).text);
  if (m.mfu > 0)
    fprintf(file, ", \"mfu\": %s", Number(m.mfu).text);
  if (m.scaled)
    fprintf(file, ", \"loss_scale\": %s, \"skipped\": %s", Number(m.lossScale).text,
            m.skipped ? "true" : "false");
  if (m.evaluated)
    fprintf(file, ", \"eval_loss\": %s", Number(m.evalLoss).text);
  if (fprintf(file, "}\n") < 0 || fflush(file) != 0)
    fail(SHALE_EXIT_IO, "cannot write '%s': %s", path.c_str(), strerror(errno));
}

void printProgress(const StepMetrics &m, int64_t steps) {
  char mfu[24] = "";
  if (m.mfu > 0)
    snprintf(mfu, sizeof(mfu), " | mfu %.1f %%", 100 * m.mfu);
  printf("step %lld/%lld | loss %.5f | norm %.4f | lr %.3e | %.1f ms | "
         "%.0f tokens/s | %.1f MiB%s\n",
         (long long)m.step + 1, (long long)steps, m.loss, m.gradNorm, m.lr, m.seconds * 1e3,
         m.seconds > 0 ? m.tokens / m.seconds : 0, m.memoryBytes / 1048576.0, mfu);
}

} // namespace shale::rt
