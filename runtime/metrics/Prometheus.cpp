// The text format: https://prometheus.io/docs/instrumenting/exposition_formats
#include "runtime/metrics/Prometheus.h"
#include "runtime/core/Error.h"
#include "runtime/core/Files.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <unistd.h>

namespace shale::rt {

namespace {
struct Value {
  char text[32];
  explicit Value(double value) {
    if (std::isfinite(value))
      snprintf(text, sizeof(text), "%.15g", value);
    else
      snprintf(text, sizeof(text), "%s", std::isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
  }
};

std::string escaped(const std::string &value) {
  std::string out;
  for (char c : value)
    out += c == '\n' ? "\\n" : c == '"' || c == '\\' ? std::string("\\") + c : std::string(1, c);
  return out;
}
} // namespace

Prometheus::Prometheus(const std::string &path, const std::string &run, int64_t steps)
    : path(path), partial(path + ".partial"), label("run=\"" + escaped(run) + "\""), steps(steps) {
  write(true);
  try {
    close(openRegular(path, O_WRONLY | O_CREAT)); // also an error if it is a folder
    replace();
  } catch (const Error &error) {
    fail(SHALE_EXIT_IO, "cannot write metrics to '%s': %s", printable(path).c_str(), error.what());
  }
}

void Prometheus::record(const StepMetrics &metrics, double now) {
  last = metrics;
  if (metrics.rankSeconds)
    seconds = *metrics.rankSeconds;
  last.rankSeconds = nullptr; // it may not live as long
  skipped += metrics.skipped;
  if (metrics.evaluated) {
    evaluated = true;
    evalLoss = metrics.evalLoss;
  }
  timespec clock{};
  clock_gettime(CLOCK_REALTIME, &clock);
  lastStep = static_cast<double>(clock.tv_sec) + 1e-9 * static_cast<double>(clock.tv_nsec);
  if (any && now - lastWrite < 1)
    return;
  any = true;
  lastWrite = now;
  write(true);
  try {
    replace();
    warned = false;
  } catch (const Error &error) {
    if (!warned)
      warn("--prometheus: %s; the next steps try again", error.what());
    warned = true;
  }
}

void Prometheus::finish() {
  write(false);
  try {
    replace();
  } catch (const Error &error) {
    warn("--prometheus: %s; '%s' does not show the end of the run", error.what(),
         printable(path).c_str());
  }
}

void Prometheus::sample(const char *name, const char *type, const char *help, double value) {
  char head[256];
  snprintf(head, sizeof(head), "# HELP shale_%s %s\n# TYPE shale_%s %s\nshale_%s{", name, help,
           name, type, name);
  text.append(head).append(label).append("} ").append(Value(value).text).append("\n");
}

void Prometheus::samplesOfRanks() {
  if (seconds.empty())
    return;
  text += "# HELP shale_rank_seconds Seconds of the last step in which a rank did not wait for "
          "others.\n# TYPE shale_rank_seconds gauge\n";
  for (size_t rank = 0; rank < seconds.size(); ++rank) {
    char number[32];
    snprintf(number, sizeof(number), ",rank=\"%zu\"} ", rank);
    text.append("shale_rank_seconds{").append(label).append(number);
    text.append(Value(seconds[rank]).text).append("\n");
  }
}

void Prometheus::write(bool running) {
  text.clear();
  sample("running", "gauge", "1 while the program trains, 0 after its end.", running);
  sample("steps", "gauge", "Steps of the whole run.", static_cast<double>(steps));
  if (lastStep == 0)
    return;
  const StepMetrics &m = last;
  auto gauge = [&](const char *name, const char *help, double value) {
    sample(name, "gauge", help, value);
  };
  double done = static_cast<double>(m.step + 1);
  gauge("step", "Steps that are done.", done);
  gauge("last_step_timestamp_seconds", "When the last step ended, in Unix time.", lastStep);
  gauge("step_seconds", "Duration of the last step.", m.seconds);
  gauge("loss", "Mean loss over the labels of the last step.", m.loss);
  gauge("grad_norm", "Norm of all gradients, before clipping.", m.gradNorm);
  gauge("learning_rate", "Learning rate of the last step.", m.lr);
  gauge("tokens_per_second", "Tokens of all ranks per second.",
        m.seconds > 0 ? static_cast<double>(m.tokens) / m.seconds : 0);
  sample("tokens_total", "counter", "Tokens of all ranks since the first step of the run.",
         done * static_cast<double>(m.tokens));
  sample("skipped_steps_total", "counter",
         "Steps since the start of the program whose update was skipped.",
         static_cast<double>(skipped));
  gauge("memory_bytes", "Resident memory of rank 0.", static_cast<double>(m.memoryBytes));
  gauge("comm_bytes", "Bytes that rank 0 sent in the last step.", static_cast<double>(m.commBytes));
  gauge("tflops", "Operations of the model per second and rank, in 1e12.", m.tflops);
  if (m.mfu > 0)
    gauge("mfu", "Fraction of the peak of --peak-tflops.", m.mfu);
  if (m.scaled)
    gauge("loss_scale", "Loss scale of f16.", m.lossScale);
  if (evaluated)
    gauge("eval_loss", "Mean loss of the last evaluation.", evalLoss);
  samplesOfRanks();
}

void Prometheus::replace() {
  int file = openRegular(partial, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
  size_t done = 0;
  int error = 0;
  while (done < text.size() && error == 0) {
    ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n >= 0)
      done += n;
    else if (errno != EINTR)
      error = errno;
  }
  if (close(file) != 0 && error == 0)
    error = errno;
  if (error == 0 && rename(partial.c_str(), path.c_str()) != 0)
    error = errno;
  if (error == 0)
    return;
  unlink(partial.c_str());
  fail(SHALE_EXIT_IO, "cannot write '%s': %s", printable(path).c_str(), strerror(error));
}

} // namespace shale::rt
