// The flags that affect the result of training: stored in checkpoints, compared when a
// run is resumed.
#include "runtime/core/Error.h"
#include "runtime/program/flags/Options.h"

#include <algorithm>
#include <filesystem>

namespace shale::rt {

std::string hyperFlag(std::string name) {
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

std::map<std::string, std::string> runFlags(const Options &o) {
  auto number = [](double x) { return format("%.9g", x); };
  auto whole = [](int64_t n) { return std::to_string(n); };
  std::string renames;
  for (const std::string &rule : o.initMap)
    renames += (renames.empty() ? "" : " ") + rule;
  std::map<std::string, std::string> flags = {{"data", o.data},
                                              {"token-dtype", o.tokenDtype},
                                              {"no-shuffle", o.shuffle ? "false" : "true"},
                                              {"init", o.init},
                                              {"init-map", renames},
                                              {"steps", whole(o.steps)},
                                              {"lr", number(o.lr)},
                                              {"schedule", o.schedule},
                                              {"warmup", whole(o.warmup)},
                                              {"min-lr", number(o.minLr)},
                                              {"decay-fraction", number(o.decayFraction)},
                                              {"skip-spikes", number(o.skipSpikes)},
                                              {"seed", std::to_string(o.seed)}};
  for (const auto &[name, value] : o.hypers)
    flags[hyperFlag(name)] = number(value);
  return flags;
}

/// Whether two paths are of the same file.
static bool sameFile(const std::string &x, const std::string &y) {
  std::error_code error;
  return !x.empty() && !y.empty() && std::filesystem::equivalent(x, y, error);
}

std::string flagDifferences(const Options &options,
                            const std::map<std::string, std::string> &before) {
  std::string text;
  for (const auto &[flag, value] : runFlags(options)) {
    auto old = before.find(flag);
    if (old == before.end() || old->second == value || (flag == "seed" && !options.seedGiven) ||
        // --init need not be repeated when a run is resumed.
        (flag.compare(0, 4, "init") == 0 && value.empty()) ||
        ((flag == "data" || flag == "init") && sameFile(old->second, value)))
      continue;
    auto shown = [](const std::string &text) { return text.empty() ? std::string("none") : text; };
    text += (text.empty() ? "--" : ", --") + flag + " " + shown(value) + " (was " +
            shown(old->second) + ")";
  }
  return text;
}

} // namespace shale::rt
