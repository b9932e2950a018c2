//===- Advice.cpp - Explains a plan and suggests changes ------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/nn/Ops/State.h"
#include "dialects/nn/Optimizers.h"
#include "lib/Analysis/Timeline.h"
#include "lib/Planning/ModelPlanner.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;
using namespace shale;

static std::string percent(int64_t change, int64_t of) {
  return of == 0
             ? ""
             : llvm::formatv(" ({0}{1:f1} %)", change >= 0 ? "+" : "", 100.0 * change / of).str();
}

static std::string signedNumber(int64_t value) {
  return (value >= 0 ? "+" : "") + std::to_string(value);
}

/// Returns "123 bytes (1.2 GiB) per rank", and the host memory, if any.
static std::string memoryText(const ModelPlan &plan) {
  std::string text =
      std::to_string(plan.device()) + " bytes (" + formatBytes(plan.device()) + ") per rank";
  if (plan.host())
    text += " and " + std::to_string(plan.host()) + " bytes (" + formatBytes(plan.host()) +
            ") of host memory";
  return text;
}

/// Prints the largest tensors that are live at the peak of one memory.
static void printLive(const Timeline &timeline, mem::Memory memory, unsigned count,
                      raw_ostream &os) {
  int64_t peak = timeline.peak[memory];
  std::vector<const LiveTensor *> live = timeline.liveAt(peak, memory);
  os << "  live at the peak" << (memory == mem::Memory::Host ? " of host memory" : "") << ", in @"
     << timeline.function << " at op " << peak;
  if (peak < int64_t(timeline.ops.size()))
    if (std::string node = sourceNode(timeline.ops[peak]->getLoc()); !node.empty())
      os << " (node '" << node << "')";
  os << ":\n";
  int64_t rest = 0;
  for (auto [index, tensor] : llvm::enumerate(live)) {
    if (index >= count) {
      rest += tensor->bytes;
      continue;
    }
    os << llvm::format("  %15lld  ", (long long)tensor->bytes)
       << llvm::left_justify(rt::stringifyCategory(tensor->category), 14) << tensor->name;
    if (!tensor->source.empty() && tensor->source != tensor->name)
      os << ", node '" << tensor->source << "'";
    os << "\n";
  }
  if (live.size() > count)
    os << llvm::format("  %15lld  ", (long long)rest) << (live.size() - count) << " more\n";
}

/// Whether a plan of the model takes seconds, so that only the largest changes are planned.
static bool isLarge(const ModelPlan &plan) {
  return plan.summary.launches + plan.summary.gemms > 2000;
}

/// Whether a flag may change the plan: one rank shares nothing with others.
static bool mayMatter(const Knob &knob, const ModelPlan &plan) {
  bool ofSeveral =
      llvm::is_contained<StringRef>({"shard", "unit", "reduce-dtype"}, knob.flag->name);
  return plan.summary.ranks > 1 || !ofSeveral;
}

/// Returns the plans that differ from `plan` in one of the flags.
static std::vector<ModelPlan> variations(ModelPlanner &planner, const ModelPlan &plan,
                                         ArrayRef<Knob> flags, bool keepModules) {
  std::vector<CompileOptions> all;
  std::set<std::string> known = {planKey(plan.options, plan.summary.ranks)};
  for (const Knob &knob : flags) {
    if (!mayMatter(knob, plan) || (isLarge(plan) && knob.flag->effect == Effect::Graph))
      continue;
    for (const std::string &value : isLarge(plan) ? knob.shown().take_back(1) : knob.shown()) {
      CompileOptions options = plan.options;
      if (knob.flag->set(options, value).empty() &&
          known.insert(planKey(options, plan.summary.ranks)).second)
        all.push_back(std::move(options));
    }
  }
  std::vector<ModelPlan> list;
  for (PlanOrError &each : planner.planAll(all, keepModules))
    if (each.plan)
      list.push_back(std::move(*each.plan));
  return list;
}

std::vector<ModelPlan> shale::neighbours(ModelPlanner &planner, const ModelPlan &plan,
                                         bool keepModules) {
  std::vector<Knob> flags = allKnobs().vec();
  for (Knob &knob : flags)
    if (knob.flag == flagNamed("unit"))
      llvm::append_range(knob.values, smallerUnits(plan.summary.parameters).values);
  return variations(planner, plan, flags, keepModules);
}

void shale::printChange(const ModelPlan &from, const ModelPlan &to, raw_ostream &os) {
  int64_t device = to.device() - from.device(), host = to.host() - from.host(),
          flops = to.summary.flops - from.summary.flops,
          wire = to.summary.sentBytes - from.summary.sentBytes;
  os << "  " << llvm::left_justify(flagsBeside(to.options, from.options), 32) << " device "
     << signedNumber(device) << " bytes" << percent(device, from.device());
  if (host)
    os << ", host " << signedNumber(host) << " bytes";
  os << ", flops " << signedNumber(flops) << percent(flops, from.summary.flops);
  if (wire)
    os << ", sent " << signedNumber(wire) << " bytes";
  os << llvm::format(", predicted step %.5g -> %.5g ms\n", from.seconds * 1e3, to.seconds * 1e3);
}

/// Returns the knob in which two plans differ.
static const Knob *changedKnob(const ModelPlan &from, const ModelPlan &to) {
  for (const Knob &knob : allKnobs())
    if (knob.flag->get(from.options) != knob.flag->get(to.options))
      return &knob;
  return nullptr;
}

/// Chooses up to three of `others`, each with a different flag: the one that frees most device
/// memory, the one that frees most per added time, and the fastest.
static std::vector<const ModelPlan *> chooseChanges(const ModelPlan &plan,
                                                    ArrayRef<ModelPlan> others) {
  std::vector<const ModelPlan *> chosen;
  auto take = [&](llvm::function_ref<double(const ModelPlan &)> gain) {
    const ModelPlan *best = nullptr;
    for (const ModelPlan &other : others) {
      bool taken = llvm::any_of(chosen, [&](const ModelPlan *each) {
        return changedKnob(plan, *each) == changedKnob(plan, other);
      });
      if (!taken && gain(other) > (best ? gain(*best) : 0))
        best = &other;
    }
    if (best)
      chosen.push_back(best);
  };
  take([&](const ModelPlan &other) { return double(plan.device() - other.device()); });
  take([&](const ModelPlan &other) {
    // A cost of less than a thousandth of a step counts as a thousandth.
    double cost = std::max(other.seconds / plan.seconds - 1, 1e-3);
    return other.device() < plan.device() ? (plan.device() - other.device()) / cost : 0;
  });
  take([&](const ModelPlan &other) { return std::max(0.0, 0.99 * plan.seconds - other.seconds); });
  return chosen;
}

/// Prints whether the plan fits into the device memory of the machine, where that is one size.
static void printCapacity(const ModelPlan &plan, raw_ostream &os) {
  const Rates &machine = *plan.options.machine;
  if (machine.capacity == 0)
    return;
  int64_t usable = machine.capacity - machine.reserved, left = usable - plan.device();
  os << "machine       " << machine.name << " has " << usable << " bytes ("
     << llvm::format("%.2f GiB) for a process: ", usable / double(1 << 30));
  if (left >= 0)
    os << "the plan fits, with " << left
       << llvm::format(" bytes (%.1f %%) to spare\n", 100.0 * left / usable);
  else
    os << "the plan does not fit; --memory-limit " << usable / (int64_t(1) << 30)
       << "GiB finds one that does, or --machine names another\n";
}

/// Prints how many parameters each optimizer updates, where there are two.
static void printOptimizers(ModuleOp module, raw_ostream &os) {
  const nn::Optimizer *main = nn::getOptimizer(module);
  if (!main || !main->rest)
    return;
  std::map<StringRef, std::pair<int64_t, int64_t>> counts; // parameters and elements
  for (auto state : module.getOps<nn::StateOp>())
    if (state.isTrainedParameter() && !state->hasAttr(dist::kUnitAttr)) {
      auto &[parameters, elements] = counts[nn::getOptimizer(state, *main).name];
      ++parameters;
      elements += state.getTensorType().getNumElements();
    }
  const char *separator = "optimizers    ";
  for (StringRef name : {main->name, main->rest->optimizer().name}) {
    auto [parameters, elements] = counts[name];
    os << separator << name << ": " << parameters << " parameters of " << elements << " elements";
    separator = "; ";
  }
  os << " (--remarks names them)\n";
}

void shale::printVerdict(ModelPlanner &planner, const ModelPlan &plan, raw_ostream &os) {
  os << "verdict       peak " << memoryText(plan) << ": ";
  std::map<rt::Category, int64_t> parts;
  for (const PlanLine &line : plan.summary.lines)
    if (line.memory == mem::Memory::Device)
      parts[line.category] += line.bytes;
  std::vector<std::pair<int64_t, rt::Category>> sorted;
  for (auto [category, bytes] : parts)
    if (bytes > 0)
      sorted.push_back({bytes, category});
  llvm::sort(sorted, std::greater<>());
  for (auto [index, part] : llvm::enumerate(sorted))
    os << (index ? ", " : "") << rt::stringifyCategory(part.second)
       << llvm::format(" %.0f %%", 100.0 * part.first / std::max<int64_t>(1, plan.device()));
  os << llvm::format("; predicted step %.5g ms\n", plan.seconds * 1e3);
  printCapacity(plan, os);
  printOptimizers(*plan.module, os);
  if (!plan.options.advice)
    return;
  std::vector<ModelPlan> others = neighbours(planner, plan);
  MemoryLimit limit = plan.options.limit();
  llvm::erase_if(others, [&](const ModelPlan &other) { return !other.fits(limit); });
  std::vector<const ModelPlan *> shown = chooseChanges(plan, others);
  if (shown.empty()) {
    os << "  no single flag lowers it or speeds it up" << (limit.any() ? " within the limit" : "")
       << "\n";
    return;
  }
  os << "changes       one flag each:\n";
  for (const ModelPlan *other : shown)
    printChange(plan, *other, os);
}

namespace {
/// The memory that is too small: one of them, or both together.
enum class Space { Device, Host, Both };

int64_t bytesIn(Space space, const ModelPlan &plan) {
  return (space != Space::Host ? plan.device() : 0) + (space != Space::Device ? plan.host() : 0);
}
} // namespace

/// Returns the plan that needs the least of the memory that is too small, and sets `space` to
/// that memory: the device's, among plans that fit the host; if none does, the host's.
static const ModelPlan *smallestOf(ArrayRef<ModelPlan> plans, const MemoryLimit &limit,
                                   Space &space) {
  const ModelPlan *best = nullptr;
  for (space = limit.sum ? Space::Both : Space::Device;; space = Space::Host) {
    for (const ModelPlan &plan : plans) {
      bool possible = space != Space::Device || !limit.host || plan.host() <= *limit.host;
      auto bytes = [&](const ModelPlan &p) {
        return std::make_tuple(bytesIn(space, p), p.device(), p.host());
      };
      if (possible && (!best || bytes(plan) < bytes(*best)))
        best = &plan;
    }
    if (best)
      return best;
  }
}

/// Returns the smallest value of --memory-limit that the plan fits; the limit of the other
/// memory stays unchanged if it is large enough.
static std::string limitText(const ModelPlan &plan, const MemoryLimit &limit, Space space) {
  if (space == Space::Both)
    return std::to_string(bytesIn(space, plan));
  std::string device, host;
  if (space == Space::Device || limit.device)
    device =
        "device=" + std::to_string(space == Space::Device ? plan.device()
                                                          : std::max(*limit.device, plan.device()));
  if (space == Space::Host || limit.host)
    host = "host=" + std::to_string(space == Space::Host ? plan.host() : *limit.host);
  return device + (device.empty() || host.empty() ? "" : ",") + host;
}

/// Prints what is live at the peak of a memory, and what the memory holds besides the arena.
static void printContents(const ModelPlan &planned, mem::Memory memory, raw_ostream &os) {
  if (FailureOr<Timeline> timeline = largestTimeline(*planned.module, memory); succeeded(timeline))
    printLive(*timeline, memory, 8, os);
  os << "  beside the arena:\n";
  for (const PlanLine &line : planned.summary.lines)
    if (line.memory == memory && line.holder != PlanLine::Arena)
      os << llvm::format("  %15lld  ", (long long)line.bytes) << line.what << "\n";
}

/// Prints what would lower the memory that is too small: each flag that does, with its effect.
static void printSavings(ModelPlanner &planner, const ModelPlan &smallest, const MemoryLimit &limit,
                         Space space, raw_ostream &os) {
  std::vector<ModelPlan> lower;
  std::vector<Knob> others = otherSavings(smallest.summary.parameters);
  for (ArrayRef<Knob> flags : {allKnobs(), ArrayRef<Knob>(others)})
    for (ModelPlan &other : variations(planner, smallest, flags, /*keepModules=*/false))
      // A plan that does not fit the other memory does not help.
      if (bytesIn(space, other) < bytesIn(space, smallest) &&
          (space != Space::Device || !limit.host || other.host() <= *limit.host))
        lower.push_back(std::move(other));
  llvm::stable_sort(lower, [&](const ModelPlan &a, const ModelPlan &b) {
    return bytesIn(space, a) < bytesIn(space, b);
  });
  os << "  what would lower it:\n";
  if (lower.empty())
    os << "  no other value of one flag\n";
  for (const ModelPlan &other : lower)
    printChange(smallest, other, os);
  if (isLarge(smallest)) {
    os << "  not planned, because a plan of this model takes seconds:";
    for (ArrayRef<Knob> flags : {allKnobs(), ArrayRef<Knob>(others)})
      for (const Knob &knob : flags)
        if (knob.flag->effect == Effect::Graph && mayMatter(knob, smallest))
          os << " --" << knob.flag->name << " " << knob.values.back();
    os << "\n";
  }
  os << "  a smaller --dim, with --accumulate K if a step is to keep its rows\n"
        "  more ranks in --mesh, with --shard full\n"
        "  flags whose names end in -dtype round more; the others keep the precision\n";
}

void shale::explainNoFit(ModelPlanner &planner, const CompileOptions &options,
                         ArrayRef<ModelPlan> plans, const MemoryLimit &limit, raw_ostream &os) {
  Space space = Space::Device;
  const ModelPlan &smallest = *smallestOf(plans, limit, space);
  bool host = space == Space::Host;
  std::string flags = flagsBeside(smallest.options, options);
  int64_t least = bytesIn(space, smallest);
  os << "no plan fits: the smallest takes " << least << " bytes (" << formatBytes(least) << ") of "
     << (host                   ? "host memory"
         : space == Space::Both ? "memory"
                                : "device memory")
     << " per rank";
  if (limit.host && !host)
    os << " with " << smallest.host() << " bytes of host memory";
  os << "; the limit is "
     << (host                   ? *limit.host
         : space == Space::Both ? *limit.sum
                                : *limit.device)
     << " bytes";
  if (limit.host && !host)
    os << ", host " << *limit.host << " bytes";
  os << "\n  smallest limit that can be met: --memory-limit " << limitText(smallest, limit, space)
     << (flags.empty() ? "" : " (" + flags + ")") << "\n";
  // Typed flags are fixed; the plan may be smaller without them.
  std::vector<PlanOrError> again = planner.planAll(smallest.options, /*keepModules=*/true);
  if (again.front().plan) {
    if (!host)
      printContents(*again.front().plan, mem::Memory::Device, os);
    if (host || (space == Space::Both && smallest.host() > 0))
      printContents(*again.front().plan, mem::Memory::Host, os);
  }
  printSavings(planner, smallest, limit, space, os);
}

/// Prints rows of text, padded to columns; does not wrap.
static void printTable(const std::vector<std::vector<std::string>> &rows, raw_ostream &os) {
  std::vector<size_t> widths;
  for (const auto &row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      widths.resize(std::max(widths.size(), i + 1));
      widths[i] = std::max(widths[i], row[i].size());
    }
  for (const auto &row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i)
      os << llvm::right_justify(row[i], widths[i]) << "  ";
    os << row.back();
    os << "\n";
  }
}

void shale::printComparison(ModelPlanner &planner, const CompileOptions &options, raw_ostream &os) {
  std::vector<CompileOptions> variants = variantsOf(options);
  std::vector<std::vector<std::string>> rows = {
      {"device", "host", "wire bytes", "extra flops", "step ms", "flags"}};
  const ModelPlan *base = nullptr;
  MemoryLimit limit = options.limit();
  std::vector<PlanOrError> plans = planner.planAll(variants);
  for (auto [variant, made] : llvm::zip(variants, plans)) {
    std::string flags;
    for (const Comparison &each : options.compare)
      flags += (flags.empty() ? "--" : " --") + std::string(each.knob->flag->name) + " " +
               each.knob->flag->get(variant);
    if (!made.plan) {
      rows.push_back({"-", "-", "-", "-", "-",
                      flags + "   (" + StringRef(made.wrong).take_front(100).str() + ")"});
      continue;
    }
    const ModelPlan &plan = *made.plan;
    base = base ? base : &plan;
    std::string ms;
    llvm::raw_string_ostream(ms) << llvm::format("%.4g", plan.seconds * 1e3);
    rows.push_back({std::to_string(plan.device()), std::to_string(plan.host()),
                    std::to_string(plan.summary.sentBytes),
                    signedNumber(plan.summary.flops - base->summary.flops), ms,
                    flags + (plan.fits(limit) ? "" : "   (above the limit)")});
  }
  os << "plans         bytes per rank; flops relative to the first row; predicted step times, for ordering only\n";
  printTable(rows, os);
}
