//===- Knobs.cpp - Flags that the planner varies --------------------------===//
#include "tools/driver/Knobs.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <cassert>

using namespace shale;
using llvm::StringRef;

/// Maximum number of plans in one table; more is assumed to be a mistake.
static constexpr size_t kMostVariants = 1024;

llvm::ArrayRef<Knob> shale::allKnobs() {
  static const std::vector<Knob> knobs = {
      {flagNamed("shard"), {"none", "optimizer", "grad", "full"}},
      {flagNamed("unit"), {"block"}},
      {flagNamed("param-dtype"), {"f32", "bf16"}},
      {flagNamed("recompute"),
       {"none", "selective", "block", "block:0.25", "block:0.5", "block:0.75"},
       {"none", "selective", "block"}},
      // From the cheapest to the one that frees most memory.
      {flagNamed("offload"),
       {"none", "optimizer", "activations:0.5", "activations", "optimizer,activations",
        "params,grads,optimizer", "all"},
       {"none", "optimizer", "activations", "all"}},
      {flagNamed("bucket-size"), {"0", "25MiB", "4MiB"}, {}, {"0", "25MiB"}},
      {flagNamed("reshard-after-forward"), {"true", "false"}},
      {flagNamed("prefetch"), {"1", "0", "2"}},
      {flagNamed("max-gathers-in-flight"), {"2", "1", "3"}},
      {flagNamed("order"), {"overlap", "memory"}},
  };
  return knobs;
}

const Knob *shale::knobNamed(StringRef flag) {
  for (const Knob &knob : allKnobs())
    if (flag == knob.flag->name)
      return &knob;
  return nullptr;
}

Knob shale::smallerUnits(int64_t parameters) {
  // A power of ten, between a 640th and a 64th of the parameters: the blocks of most models are
  // larger.
  UnitPolicy unit;
  unit.kind = UnitPolicy::Size;
  for (unit.size = 1; unit.size <= parameters / 640; unit.size *= 10)
    ;
  return {flagNamed("unit"), {textOf(unit)}};
}

std::vector<Knob> shale::otherSavings(int64_t parameters) {
  return {{flagNamed("optimizer-dtype"), {"bf16"}}, {flagNamed("master-dtype"), {"none"}},
          {flagNamed("reduce-dtype"), {"bf16"}},    smallerUnits(parameters),
          {flagNamed("loss-chunk"), {"64"}},        {flagNamed("threads"), {"1"}},
          {flagNamed("deterministic"), {"false"}}};
}

std::string shale::flagsBeside(const CompileOptions &options, const CompileOptions &base) {
  std::string text;
  auto add = [&](const Flag &flag) {
    if (std::string value = flag.get(options); !value.empty() && value != flag.get(base))
      text += (text.empty() ? "--" : " --") + std::string(flag.name) + " " + value;
  };
  for (const Knob &knob : allKnobs())
    add(*knob.flag);
  for (const Flag &flag : allFlags())
    if (flag.changesPlan() && !knobNamed(flag.name))
      add(flag);
  return text;
}

/// Returns options whose plan has no relevant differences from that of `o`: flags without an effect
/// have one value.
static CompileOptions effective(CompileOptions o, int64_t ranks) {
  bool gathers = o.gathersTrained() && ranks > 1, again = o.gathersUnits() && o.reshardAfterForward;
  // A unit that is gathered ahead is in flight together with the unit in use. Without gathers,
  // copies between device and host memory start ahead, or not.
  int prefetch = gathers ? std::min(o.prefetch, o.maxGathersInFlight - 1) : 0;
  bool bounded = gathers ? again || prefetch > 0 : o.offload.params > 0;
  bool copiesAhead = o.offload.any() && o.prefetch > 0;
  o.bucketSize = ranks > 1 ? reductionBucket(o) : 0;
  o.reshardAfterForward |= !gathers || !o.gathersUnits();
  o.prefetch = 2 * prefetch + copiesAhead;
  o.maxGathersInFlight = bounded ? o.maxGathersInFlight : 0;
  if (ranks == 1 || !o.scattersGradients())
    o.order = ReductionOrder::Overlap;
  return o;
}

std::string shale::planKey(const CompileOptions &options, int64_t ranks) {
  CompileOptions used = effective(options, ranks);
  std::string key;
  for (const Flag &flag : allFlags())
    if (flag.changesPlan())
      key += flag.get(used) + "|";
  return key;
}

/// Replaces each entry of `list` by one entry for each value of `knob`. With `asItIs` the entry
/// itself comes before them.
static void multiply(std::vector<CompileOptions> &list, const Knob &knob,
                     llvm::ArrayRef<std::string> values, bool asItIs) {
  std::vector<CompileOptions> longer;
  for (const CompileOptions &each : list) {
    if (asItIs)
      longer.push_back(each);
    for (const std::string &value : values) {
      longer.push_back(each);
      std::string wrong = knob.flag->set(longer.back(), value);
      assert(wrong.empty() && "values of knobs and of --compare are valid");
      (void)wrong;
    }
  }
  list = std::move(longer);
}

/// Whether a plan of the search lets gathers take more memory than by default and reductions
/// less. Such plans lie between those that do only one of the two, and there are as many of
/// them as of both together.
static bool pullsBothWays(const CompileOptions &plan, const CompileOptions &typed) {
  bool more = plan.prefetch > std::max(1, typed.prefetch) ||
              plan.maxGathersInFlight > std::max(2, typed.maxGathersInFlight);
  return more && plan.order == ReductionOrder::Memory && typed.order != ReductionOrder::Memory;
}

std::vector<CompileOptions> shale::candidates(const CompileOptions &options) {
  std::vector<CompileOptions> list = {options}, kept;
  for (const Knob &knob : allKnobs())
    if (knob.flag->effect == Effect::Plan && !options.typed.count(knob.flag->name))
      multiply(list, knob, knob.searched(options), /*asItIs=*/true);
  std::set<std::string> known;
  int64_t ranks = options.mesh.ranks();
  for (CompileOptions &each : list)
    if (!pullsBothWays(each, options) && known.insert(planKey(each, ranks)).second)
      kept.push_back(std::move(each));
  return kept;
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

std::vector<CompileOptions> shale::variantsOf(const CompileOptions &options) {
  std::vector<CompileOptions> variants = {options};
  for (const Comparison &each : options.compare)
    multiply(variants, *each.knob, each.values, /*asItIs=*/false);
  return variants;
}
