// Progress lines and the bar.
#include "runtime/metrics/Progress.h"
#include "runtime/core/Error.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/ioctl.h>
#include <unistd.h>

namespace shale::rt {

namespace {
int columnsOfTerminal() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
    return size.ws_col;
  return 80;
}
} // namespace

void writeDuration(double seconds, char (&text)[32]) {
  long long all = static_cast<long long>(std::clamp(seconds, 0.0, 3600.0 * 99999) + 0.5);
  long long hours = all / 3600, minutes = all / 60 % 60, rest = all % 60;
  if (hours > 0)
    snprintf(text, sizeof(text), "%lld:%02lld:%02lld", hours, minutes, rest);
  else
    snprintf(text, sizeof(text), "%lld:%02lld", minutes, rest);
}

Progress::Progress(bool bar, bool color) : bar(bar), color(color) {}

Progress Progress::ofStdout() {
  const char *term = std::getenv("TERM"), *plain = std::getenv("NO_COLOR");
  // mpirun gives its processes pseudo-terminals, wherever their output goes.
  bool terminal = isatty(STDOUT_FILENO) && term && std::strcmp(term, "dumb") != 0 &&
                  !std::getenv("OMPI_COMM_WORLD_RANK");
  return Progress(terminal, terminal && !(plain && *plain));
}

void Progress::clear() {
  if (drawn)
    fputs("\r\033[K", stdout);
  drawn = false;
  setBar(false);
}

void Progress::work(const char *what, int64_t done, int64_t all) {
  if (!bar)
    return;
  clear();
  printf("%s: %lld of %lld", what, (long long)done, (long long)all);
  fflush(stdout);
  drawn = true;
  setBar(true);
}

void Progress::step(const StepMetrics &m, int64_t steps, double now) {
  // The first step is not representative: it does one-time initialization.
  if (lastStep >= 0) {
    double took = now - lastStep;
    pace = seen < 2 ? took : 0.9 * pace + 0.1 * took;
  }
  ++seen;
  lastStep = now;
  if (!bar) {
    printProgress(m, steps);
    return;
  }
  if (drawn && now - lastDrawn < 0.1 && m.step + 1 < steps)
    return;
  lastDrawn = now;
  drawBar(m, steps);
}

void Progress::drawBar(const StepMetrics &m, int64_t steps) {
  char about[256], time[32] = "?", mfu[24] = "";
  double remaining = left(steps - m.step - 1);
  if (remaining >= 0)
    writeDuration(remaining, time);
  if (m.mfu > 0)
    snprintf(mfu, sizeof(mfu), " | mfu %.1f %%", 100 * m.mfu);
  snprintf(about, sizeof(about), " %lld/%lld | loss %.5f | norm %.4f | lr %.3e | %s%s | %s left",
           (long long)m.step + 1, (long long)steps, m.loss, m.gradNorm, m.lr, Speed(m).text, mfu,
           time);
  int columns = columnsOfTerminal() - 1, width = static_cast<int>(std::strlen(about));
  int room = std::min(40, columns - width - 2);
  clear();
  if (room >= 5) {
    int full = steps > 0 ? static_cast<int>(room * double(m.step + 1) / steps) : 0;
    full = std::clamp(full, 0, room);
    char line[48];
    std::memset(line, '=', full);
    std::memset(line + full, ' ', room - full);
    if (full > 0 && full < room)
      line[full - 1] = '>';
    line[room] = '\0';
    printf(color ? "[\033[32m%s\033[0m]" : "[%s]", line);
    columns -= room + 2;
  }
  printf("%.*s", std::max(columns, 0), about);
  drawn = true;
  setBar(true);
}

} // namespace shale::rt
