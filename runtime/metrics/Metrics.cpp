// metrics.jsonl and the progress line.
#include "runtime/metrics/Metrics.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"
#include "runtime/core/Json.h"

#include <cmath>
#include <string_view>

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

/// Appends the times of the ranks. Those of many ranks are in some lines only, to keep the file
/// small.
static void addRanks(const StepMetrics &m, std::string &line) {
  constexpr size_t many = 64;
  constexpr int64_t every = 100;
  const std::vector<double> &seconds = *m.rankSeconds;
  char text[80];
  snprintf(text, sizeof(text), ", \"slowest_rank\": %d, \"slowest_rank_seconds\": %.4g",
           m.slowestRank, seconds[m.slowestRank]);
  line += text;
  if (seconds.size() > many && m.step % every != 0)
    return;
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    snprintf(text, sizeof(text), rank == 0 ? ", \"rank_seconds\": [%.4g" : ", %.4g", seconds[rank]);
    line += text;
  }
  line += "]";
}

/// Appends text as the inside of a JSON string.
static void addEscaped(std::string_view text, std::string &line) {
  for (char c : text) {
    if (c == '"' || c == '\\')
      line += '\\';
    line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
}

/// Appends the values of modules: an object for each group with one for each module.
static void addModules(const StepMetrics &m, std::string &line) {
  std::string_view group, module;
  for (int i = 0; i < m.valueCount; ++i) {
    std::string_view name = m.names[i];
    size_t first = name.find('/'), last = name.rfind('/');
    if (first == last) // or there is none
      continue;
    std::string_view ownGroup = name.substr(0, first),
                     ownModule = name.substr(first + 1, last - first - 1);
    bool opensGroup = ownGroup != group;
    if (opensGroup) {
      line += group.empty() ? ", \"" : "}}, \"";
      addEscaped(ownGroup, line);
      line += "\": {\"";
    } else if (ownModule != module) {
      line += "}, \"";
    }
    if (opensGroup || ownModule != module) {
      addEscaped(ownModule, line);
      line += "\": {\"";
    } else {
      line += ", \"";
    }
    group = ownGroup, module = ownModule;
    addEscaped(name.substr(last + 1), line);
    line += "\": ";
    line += Number(m.values[i]).text;
  }
  if (!group.empty())
    line += "}}";
}

void Metrics::record(const StepMetrics &m) {
  char head[1024];
  int size = 0;
  auto add = [&](const char *pattern, auto... values) {
    size += snprintf(head + size, sizeof(head) - size, pattern, values...);
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
  line.assign(head, size);
  if (m.rankSeconds)
    addRanks(m, line);
  addModules(m, line);
  line += "}\n";
  file->append(line.data(), line.size());
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
