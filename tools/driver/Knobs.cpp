//===- Knobs.cpp - Flags that the planner varies --------------------------===//
#include "tools/driver/Knobs.h"
#include "lib/Support/ByteSize.h"
#include "lib/Support/MeshSpec.h"
#include "passes/memory/Offload.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace shale;
using llvm::StringRef;

/// Maximum number of plans in one table; more is assumed to be a mistake.
static constexpr size_t kMostVariants = 1024;

static int number(StringRef text) {
  int value = 0;
  (void)text.getAsInteger(10, value);
  return value;
}

template <int Low, int High> static std::string checkNumber(StringRef text) {
  int value;
  if (text.getAsInteger(10, value) || value < Low || value > High)
    return "expects a number from " + std::to_string(Low) + " to " + std::to_string(High);
  return "";
}

static std::string oneOf(StringRef text, llvm::ArrayRef<StringRef> known) {
  return llvm::is_contained(known, text) ? "" : "is none of " + llvm::join(known, ", ");
}

/// Returns a bucket size as text, in MiB if it is a whole number of them.
static std::string bucketText(int64_t bytes) {
  return bytes > 0 && bytes % (1 << 20) == 0 ? std::to_string(bytes >> 20) + "MiB"
                                             : std::to_string(bytes);
}

llvm::ArrayRef<Knob> shale::allKnobs() {
  using O = CompileOptions;
  static const std::vector<Knob> knobs = {
      {"shard",
       {"none", "optimizer", "grad", "full"},
       [](const O &o) { return o.shard; },
       [](O &o, StringRef v) { o.shard = v.str(); },
       [](StringRef v) { return oneOf(v, {"none", "optimizer", "grad", "full", "hybrid"}); },
       true},
      {"param-dtype",
       {"f32", "bf16"},
       [](const O &o) { return o.paramDtype; },
       [](O &o, StringRef v) { o.paramDtype = v.str(); },
       [](StringRef v) { return oneOf(v, {"f32", "bf16", "f16"}); },
       true},
      {"recompute",
       {"none", "selective", "block", "block:0.25", "block:0.5", "block:0.75"},
       [](const O &o) { return o.recompute; },
       [](O &o, StringRef v) { o.recompute = v.str(); },
       [](StringRef v) {
         bool open = v.starts_with("class:") || v.starts_with("match:") ||
                     v.starts_with("block:"); // the pass knows more
         return open ? ""
                     : oneOf(v, {"none", "selective", "block", "block:FRACTION", "class:NAME",
                                 "match:REGEX"});
       },
       false,
       {"none", "selective", "block"}},
      // From the cheapest to the one that frees most memory.
      {"offload",
       {"none", "optimizer", "activations:0.5", "activations", "optimizer,activations",
        "params,grads,optimizer", "all"},
       [](const O &o) { return o.offload; },
       [](O &o, StringRef v) { o.offload = v.str(); },
       [](StringRef v) {
         OffloadPolicy policy;
         return parseOffload(v, policy);
       },
       false,
       {"none", "optimizer", "activations", "all"}},
      {"bucket-size",
       {"0", "25MiB", "4MiB"},
       [](const O &o) { return o.bucketSize ? bucketText(*o.bucketSize) : ""; },
       [](O &o, StringRef v) { o.bucketSize = parseByteSize(v); },
       [](StringRef v) {
         return std::string(parseByteSize(v) ? "" : "expects a size such as 25MiB, or 0");
       },
       false,
       {},
       {"0", "25MiB"}},
      {"reshard-after-forward",
       {"true", "false"},
       [](const O &o) { return std::string(o.reshardAfterForward ? "true" : "false"); },
       [](O &o, StringRef v) { o.reshardAfterForward = v == "true"; },
       [](StringRef v) { return oneOf(v, {"true", "false"}); },
       false},
      {"prefetch",
       {"1", "0", "2"},
       [](const O &o) { return std::to_string(o.prefetch); },
       [](O &o, StringRef v) { o.prefetch = number(v); },
       checkNumber<0, 1000>,
       false},
      {"max-gathers-in-flight",
       {"2", "1", "3"},
       [](const O &o) { return std::to_string(o.maxGathersInFlight); },
       [](O &o, StringRef v) { o.maxGathersInFlight = number(v); },
       checkNumber<1, 1000>,
       false},
      {"order",
       {"overlap", "memory"},
       [](const O &o) { return o.order; },
       [](O &o, StringRef v) { o.order = v.str(); },
       [](StringRef v) { return oneOf(v, {"overlap", "memory"}); },
       false},
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
    if (std::string value = knob.get(options); !value.empty() && value != knob.get(base))
      text += (text.empty() ? "--" : " --") + std::string(knob.flag) + " " + value;
  return text;
}

int64_t shale::rankCount(const CompileOptions &options) {
  MeshSpec mesh;
  return parseMesh(options.mesh, mesh).empty() ? mesh.ranks() : 1;
}

/// Returns options whose plan has no relevant differences from that of `o`: flags without an effect
/// have one value.
static CompileOptions effective(CompileOptions o, int64_t ranks) {
  OffloadPolicy offload;
  (void)parseOffload(o.offload, offload);
  bool gathers = o.gathersUnits() && ranks > 1;
  // A unit that is gathered ahead is in flight together with the unit in use. Without gathers,
  // copies between device and host memory start ahead, or not.
  int prefetch = gathers ? std::min(o.prefetch, o.maxGathersInFlight - 1) : 0;
  bool bounded = gathers ? o.reshardAfterForward || prefetch > 0 : offload.params > 0;
  bool copiesAhead = offload.any() && o.prefetch > 0;
  o.bucketSize = ranks > 1 ? reductionBucket(o) : 0;
  o.reshardAfterForward |= !gathers;
  o.prefetch = 2 * prefetch + copiesAhead;
  o.maxGathersInFlight = bounded ? o.maxGathersInFlight : 0;
  if (ranks == 1 || !o.scattersGradients())
    o.order.clear();
  return o;
}

std::string shale::planKey(const CompileOptions &options, int64_t ranks) {
  CompileOptions used = effective(options, ranks);
  std::string key;
  for (const Knob &knob : allKnobs())
    key += knob.get(used) + "|";
  return key;
}

/// Replaces each entry of `list`, in order, by one entry per value of `knob`; with `asItIs` also
/// keeps the entry.
static void multiply(std::vector<CompileOptions> &list, const Knob &knob,
                     llvm::ArrayRef<std::string> values, bool asItIs) {
  std::vector<CompileOptions> longer;
  for (const CompileOptions &each : list) {
    if (asItIs)
      longer.push_back(each);
    for (const std::string &value : values) {
      longer.push_back(each);
      knob.set(longer.back(), value);
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
  return more && plan.order == "memory" && typed.order != "memory";
}

std::vector<CompileOptions> shale::candidates(const CompileOptions &options) {
  std::vector<CompileOptions> list = {options}, kept;
  for (const Knob &knob : allKnobs())
    if (!knob.graph && !options.typed.count(knob.flag))
      multiply(list, knob, knob.searched(options), /*asItIs=*/true);
  std::set<std::string> known;
  int64_t ranks = rankCount(options);
  for (CompileOptions &each : list)
    if (!pullsBothWays(each, options) && known.insert(planKey(each, ranks)).second)
      kept.push_back(std::move(each));
  return kept;
}

std::string shale::parseComparison(StringRef list, const CompileOptions &options,
                                   std::vector<const Knob *> &knobs,
                                   std::vector<CompileOptions> &variants) {
  std::vector<std::vector<std::string>> axes;
  llvm::SmallVector<StringRef> parts;
  list.split(parts, ',');
  bool listed = false; // whether the previous part had a list of values
  for (StringRef part : parts) {
    auto [name, values] = part.trim().split('=');
    const Knob *knob = knobNamed(name);
    if (!knob && listed && !part.contains('=')) {
      // The value contains commas: append its next part, and add the values after it.
      llvm::SmallVector<StringRef> more;
      part.split(more, '|');
      axes.back().back() += "," + more.front().str();
      for (StringRef value : llvm::drop_begin(more))
        axes.back().push_back(value.str());
      continue;
    }
    if (!knob) {
      std::string known;
      for (const Knob &each : allKnobs())
        known += (known.empty() ? "" : ", ") + std::string(each.flag);
      return ("'" + name + "' is none of " + known).str();
    }
    if (llvm::is_contained(knobs, knob))
      return ("'" + name + "' is named twice").str();
    knobs.push_back(knob);
    axes.push_back(knob->shown().vec());
    listed = part.contains('=');
    if (listed) {
      llvm::SmallVector<StringRef> chosen;
      values.split(chosen, '|');
      axes.back().clear();
      for (StringRef value : chosen)
        axes.back().push_back(value.str());
    }
  }
  size_t count = 1;
  for (auto [knob, values] : llvm::zip(knobs, axes)) {
    for (StringRef value : values)
      if (std::string wrong = knob->check(value); !wrong.empty())
        return (StringRef(knob->flag) + " '" + value + "': " + wrong).str();
    if ((count *= values.size()) > kMostVariants)
      return "more than " + std::to_string(kMostVariants) + " plans; name fewer flags or values";
  }
  variants = {options};
  for (auto [knob, values] : llvm::zip(knobs, axes))
    multiply(variants, *knob, values, /*asItIs=*/false);
  return "";
}
