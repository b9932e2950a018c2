//===- Candidates.cpp - Flags of the plans that a search makes ------------===//
#include "lib/Planning/Candidates.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include <cassert>

using namespace shale;
using llvm::StringRef;

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
  int64_t prefetch = gathers ? std::min(o.prefetch, o.maxGathersInFlight - 1) : 0;
  bool bounded = gathers ? again || prefetch > 0 : o.offload.params > 0;
  bool copiesAhead = o.offload.any() && o.prefetch > 0;
  o.bucketSize.bytes = ranks > 1 ? o.reductionBucket() : 0;
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

/// Whether a plan of the search spends more memory on gathers than the default flags, and saves
/// memory of reductions. Such a plan costs and saves less than a plan that does one of the two, so
/// the search leaves it out: half of all plans are of this kind.
static bool pullsBothWays(const CompileOptions &plan, const CompileOptions &typed) {
  static const CompileOptions defaults;
  bool more =
      plan.prefetch > std::max(defaults.prefetch, typed.prefetch) ||
      plan.maxGathersInFlight > std::max(defaults.maxGathersInFlight, typed.maxGathersInFlight);
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

std::vector<CompileOptions> shale::variantsOf(const CompileOptions &options) {
  std::vector<CompileOptions> variants = {options};
  for (const Comparison &each : options.compare)
    multiply(variants, *each.knob, each.values, /*asItIs=*/false);
  return variants;
}
