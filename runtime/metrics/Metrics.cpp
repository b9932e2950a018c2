// metrics.jsonl and the progress line.
#include "runtime/metrics/Metrics.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace shale::rt {

/// Enough digits to give the same float back; JSON has no infinity.
static std::string number(double value) {
  return std::isfinite(value) ? format("%.9g", value) : "null";
}

Metrics::Metrics(const std::string &path, int64_t firstStep) : path(path) {
  std::string kept;
  if (firstStep > 0 && exists(path)) {
    std::string text = readText(path, int64_t(1) << 32);
    for (size_t at = 0; at < text.size();) {
      size_t end = text.find('\n', at);
      if (end == std::string::npos)
        break; // a line that was cut short
      std::string line = text.substr(at, end - at);
      at = end + 1;
      auto object = nlohmann::json::parse(line, nullptr, false);
      if (object.is_object() && object.contains("step") &&
          object["step"].is_number_integer() && object["step"] < firstStep)
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
          "\"comm_bytes\": %lld",
          (long long)m.step, number(m.loss).c_str(), number(m.gradNorm).c_str(),
          number(m.lr).c_str(), (long long)m.tokens,
          number(m.seconds > 0 ? m.tokens / m.seconds : 0).c_str(),
          (long long)m.memoryBytes, (long long)m.commBytes);
  if (m.evaluated)
    fprintf(file, ", \"eval_loss\": %s", number(m.evalLoss).c_str());
  if (fprintf(file, "}\n") < 0 || fflush(file) != 0)
    fail(SHALE_EXIT_IO, "cannot write '%s': %s", path.c_str(), strerror(errno));
}

std::string progressLine(const StepMetrics &m, int64_t steps) {
  return format("step %lld/%lld | loss %.5f | norm %.4f | lr %.3e | %.1f ms | "
                "%.0f tokens/s | %.1f MiB",
                (long long)m.step + 1, (long long)steps, m.loss, m.gradNorm,
                m.lr, m.seconds * 1e3, m.seconds > 0 ? m.tokens / m.seconds : 0,
                m.memoryBytes / 1048576.0);
}

} // namespace shale::rt
