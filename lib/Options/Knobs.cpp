//===- Knobs.cpp - Flags that the planner varies --------------------------===//
#include "lib/Options/Knobs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using llvm::StringRef;

/// Maximum number of plans in one table; more is assumed to be a mistake.
static constexpr size_t kMostVariants = 1024;

llvm::ArrayRef<Knob> shale::allKnobs() {
  static const std::vector<Knob> knobs = {
#define GET_KNOBS
#include "lib/Options/Options.h.inc"
  };
  return knobs;
}

const Knob *shale::knobNamed(StringRef flag) {
  for (const Knob &knob : allKnobs())
    if (flag == knob.flag->name)
      return &knob;
  return nullptr;
}

/// Checks a value of --compare.
static std::string checkValue(const Knob &knob, StringRef value) {
  CompileOptions trial;
  std::string wrong = knob.flag->set(trial, value);
  if (wrong.empty() && trial.recompute.kind == RecomputePolicy::Auto)
    wrong = "'auto' is not a single plan: name the policies to compare";
  return wrong.empty() ? "" : (knob.flag->name + (" '" + value + "': ") + wrong).str();
}

std::string shale::parseComparison(StringRef list, std::vector<Comparison> &comparisons) {
  if (list.empty())
    return "expects flags, such as shard,recompute=none|block";
  llvm::SmallVector<StringRef> parts;
  list.split(parts, ',');
  bool listed = false; // whether the previous part had a list of values
  auto append = [](std::vector<std::string> &to, StringRef values) {
    llvm::SmallVector<StringRef> chosen;
    values.split(chosen, '|');
    for (StringRef value : chosen)
      to.push_back(value.str());
  };
  for (StringRef part : parts) {
    auto [name, values] = part.trim().split('=');
    const Knob *knob = knobNamed(name);
    if (!knob && listed && !part.contains('=')) {
      // The value contains commas: append its next part, and add the values after it.
      std::vector<std::string> &known = comparisons.back().values;
      std::string begun = known.back() + ",";
      known.pop_back();
      append(known, begun + part.str());
      continue;
    }
    if (!knob) {
      auto names = llvm::map_range(allKnobs(), [](const Knob &each) { return each.flag->name; });
      return ("'" + name + "' is not one of ").str() + llvm::join(names, ", ");
    }
    if (llvm::any_of(comparisons, [&](const Comparison &each) { return each.knob == knob; }))
      return ("'" + name + "' is named twice").str();
    comparisons.push_back({knob, {}});
    listed = part.contains('=');
    if (listed)
      append(comparisons.back().values, values);
    else
      comparisons.back().values = knob->shown().vec();
  }
  size_t count = 1;
  for (const Comparison &each : comparisons) {
    for (StringRef value : each.values)
      if (std::string wrong = checkValue(*each.knob, value); !wrong.empty())
        return wrong;
    if ((count *= each.values.size()) > kMostVariants)
      return "more than " + std::to_string(kMostVariants) + " plans; name fewer flags or values";
  }
  return "";
}
