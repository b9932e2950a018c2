//===- Knobs.cpp - Flags that plans differ in -----------------------------===//
#include "lib/Driver/Knobs.h"

using namespace shale;
using llvm::StringRef;

static int number(StringRef text) {
  int value = 0;
  (void)text.getAsInteger(10, value);
  return value;
}

llvm::ArrayRef<Knob> shale::allKnobs() {
  using O = CompileOptions;
  static const std::vector<Knob> knobs = {
      {"shard", {"none", "optimizer", "grad", "full"}, [](const O &o) { return o.shard; },
       [](O &o, StringRef v) { o.shard = v.str(); }, true, false},
      {"param-dtype", {"f32", "bf16"}, [](const O &o) { return o.paramDtype; },
       [](O &o, StringRef v) { o.paramDtype = v.str(); }, true, false},
      {"recompute", {"none", "selective", "block"}, [](const O &o) { return o.recompute; },
       [](O &o, StringRef v) { o.recompute = v.str(); }, false, false},
      {"reshard-after-forward", {"true", "false"}, [](const O &o) { return std::string(o.reshardAfterForward ? "true" : "false"); },
       [](O &o, StringRef v) { o.reshardAfterForward = v == "true"; }, false, true},
      {"prefetch", {"1", "0", "2"}, [](const O &o) { return std::to_string(o.prefetch); },
       [](O &o, StringRef v) { o.prefetch = number(v); }, false, true},
      {"max-gathers-in-flight", {"2", "1", "3"}, [](const O &o) { return std::to_string(o.maxGathersInFlight); },
       [](O &o, StringRef v) { o.maxGathersInFlight = number(v); }, false, true},
  };
  return knobs;
}

const Knob *shale::knobNamed(StringRef flag) {
  for (const Knob &knob : allKnobs())
    if (flag == knob.flag)
      return &knob;
  return nullptr;
}

std::string shale::flagsBeside(const CompileOptions &options, const CompileOptions &base) {
  std::string text;
  for (const Knob &knob : allKnobs())
    if (std::string value = knob.get(options); value != knob.get(base))
      text += (text.empty() ? "--" : " --") + std::string(knob.flag) + " " + value;
  return text;
}

/// Combinations that cannot differ from another one.
static bool isRepeated(const CompileOptions &o) {
  // What is never gathered again is not gathered ahead but once, and what is
  // gathered ahead has to be whole at once.
  return o.prefetch + 1 > o.maxGathersInFlight && o.prefetch > 0;
}

std::vector<CompileOptions> shale::candidates(const CompileOptions &options, int64_t ranks) {
  std::vector<CompileOptions> list = {options};
  bool gathers = options.gathersUnits();
  for (const Knob &knob : allKnobs()) {
    if (knob.graph || options.typed.count(knob.flag) || (knob.gathers && (!gathers || ranks == 1)))
      continue;
    std::vector<CompileOptions> longer;
    for (const CompileOptions &each : list) {
      longer.push_back(each);
      for (const std::string &value : knob.values)
        if (value != knob.get(options)) {
          longer.push_back(each);
          knob.set(longer.back(), value);
        }
    }
    list = std::move(longer);
  }
  std::vector<CompileOptions> kept = {list.front()};
  for (size_t i = 1; i < list.size(); ++i)
    if (!isRepeated(list[i]))
      kept.push_back(std::move(list[i]));
  return kept;
}
