//===- Advice.cpp - What a plan is made of, and what would change it ------===//
#include "lib/Analysis/Timeline.h"
#include "lib/Driver/Planner.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include <map>

using namespace mlir;
using namespace shale;

static std::string percent(int64_t change, int64_t of) {
  return of == 0 ? "" : llvm::formatv(" ({0}{1:f1} %)", change >= 0 ? "+" : "", 100.0 * change / of).str();
}

static std::string signedNumber(int64_t value) { return (value >= 0 ? "+" : "") + std::to_string(value); }

/// The largest tensors that are live at the peak.
static void printLive(const Timeline &timeline, unsigned count, raw_ostream &os) {
  std::vector<const LiveTensor *> live = timeline.liveAt(timeline.peak);
  os << "  live at the peak, in @" << timeline.function << " at op " << timeline.peak;
  if (timeline.peak < int64_t(timeline.ops.size()))
    if (std::string node = sourceNode(timeline.ops[timeline.peak]->getLoc()); !node.empty())
      os << " (node '" << node << "')";
  os << ":\n";
  int64_t rest = 0;
  for (auto [index, tensor] : llvm::enumerate(live)) {
    if (index >= count) {
      rest += tensor->bytes;
      continue;
    }
    os << llvm::format("  %15lld  ", (long long)tensor->bytes) << llvm::left_justify(rt::stringifyCategory(tensor->category), 14)
       << tensor->name;
    if (!tensor->source.empty() && tensor->source != tensor->name)
      os << ", node '" << tensor->source << "'";
    os << "\n";
  }
  if (live.size() > count)
    os << llvm::format("  %15lld  ", (long long)rest) << (live.size() - count) << " more\n";
}

std::vector<Plan> shale::neighbours(Planner &planner, const Plan &plan) {
  std::vector<Plan> list;
  // Of a large model each takes seconds: only the largest changes.
  bool few = plan.summary.launches + plan.summary.gemms > 2000;
  bool gathers = plan.options.gathersUnits();
  for (const Knob &knob : allKnobs()) {
    if (plan.summary.ranks == 1 && (knob.gathers || StringRef(knob.flag) == "shard"))
      continue;
    if (knob.gathers && !gathers)
      continue;
    if (few && (knob.graph || (knob.gathers && StringRef(knob.flag) != "reshard-after-forward")))
      continue;
    for (const std::string &value : knob.values) {
      if (value == knob.get(plan.options) || (few && value != knob.values.back()))
        continue;
      CompileOptions options = plan.options;
      knob.set(options, value);
      std::string wrong;
      FailureOr<Plan> other = planner.plan(options, &wrong);
      if (failed(other))
        continue;
      other->module = {};
      list.push_back(std::move(*other));
    }
  }
  return list;
}

void shale::printChange(const Plan &from, const Plan &to, raw_ostream &os) {
  int64_t device = to.device() - from.device(), host = to.host() - from.host(), flops = to.summary.flops - from.summary.flops,
          wire = to.summary.sentBytes - from.summary.sentBytes;
  os << "  " << llvm::left_justify(flagsBeside(to.options, from.options), 32) << " device " << signedNumber(device) << " bytes"
     << percent(device, from.device());
  if (host)
    os << ", host " << signedNumber(host) << " bytes";
  os << ", flops " << signedNumber(flops) << percent(flops, from.summary.flops);
  if (wire)
    os << ", sent " << signedNumber(wire) << " bytes";
  os << llvm::format(", predicted step %.3g -> %.3g ms\n", from.seconds * 1e3, to.seconds * 1e3);
}

void shale::printVerdict(Planner &planner, const Plan &plan, raw_ostream &os) {
  os << "verdict       peak " << plan.device() << " bytes (" << formatBytes(plan.device()) << ") a rank: ";
  std::map<rt::Category, int64_t> parts;
  for (const PlanLine &line : plan.summary.lines)
    parts[line.category] += line.bytes;
  std::vector<std::pair<int64_t, rt::Category>> sorted;
  for (auto [category, bytes] : parts)
    if (bytes > 0)
      sorted.push_back({bytes, category});
  llvm::sort(sorted, std::greater<>());
  for (auto [index, part] : llvm::enumerate(sorted))
    os << (index ? ", " : "") << rt::stringifyCategory(part.second)
       << llvm::format(" %.0f %%", 100.0 * part.first / std::max<int64_t>(1, plan.device()));
  os << llvm::format("; predicted step %.3g ms\n", plan.seconds * 1e3);
  std::vector<Plan> others = neighbours(planner, plan);
  llvm::stable_sort(others, [](const Plan &a, const Plan &b) {
    return std::make_pair(a.device(), a.seconds) < std::make_pair(b.device(), b.seconds);
  });
  std::vector<const Plan *> shown;
  for (const Plan &other : others)
    if (other.device() < plan.device() && shown.size() < 2)
      shown.push_back(&other);
  const Plan *fastest = nullptr;
  for (const Plan &other : others)
    if (other.seconds < 0.99 * plan.seconds && (!fastest || other.seconds < fastest->seconds) && !llvm::is_contained(shown, &other))
      fastest = &other;
  if (shown.empty() && !fastest) {
    os << "  no single flag lowers it or speeds it up\n";
    return;
  }
  os << "changes       one flag each:\n";
  for (const Plan *other : shown)
    printChange(plan, *other, os);
  if (fastest)
    printChange(plan, *fastest, os);
}

void shale::explainNoFit(Planner &planner, const CompileOptions &options, ArrayRef<Plan> plans, const MemoryLimit &limit, raw_ostream &os) {
  const Plan *smallest = nullptr;
  for (const Plan &plan : plans)
    if ((!limit.host || plan.host() <= *limit.host) && (!smallest || plan.device() < smallest->device()))
      smallest = &plan;
  if (!smallest)
    smallest = &plans.front();
  std::string flags = flagsBeside(smallest->options, options);
  os << "shalec: error: no plan fits: the smallest takes " << smallest->device() << " bytes (" << formatBytes(smallest->device())
     << ") of device memory a rank";
  if (limit.host)
    os << " and " << smallest->host() << " bytes of host memory";
  os << "; the limit is ";
  if (limit.device)
    os << *limit.device << " bytes";
  if (limit.host)
    os << (limit.device ? ", host " : "host ") << *limit.host << " bytes";
  os << "\n  smallest limit that can be met: --memory-limit " << smallest->device() << (flags.empty() ? "" : " (" + flags + ")") << "\n";
  std::string wrong;
  FailureOr<Plan> again = planner.plan(smallest->options, &wrong);
  if (succeeded(again)) {
    FailureOr<Timeline> timeline = largestTimeline(*again->module);
    if (succeeded(timeline))
      printLive(*timeline, 8, os);
    os << "  beside the arena:\n";
    for (const PlanLine &line : again->summary.lines)
      if (!StringRef(line.what).contains("arena"))
        os << llvm::format("  %15lld  ", (long long)line.bytes) << line.what << "\n";
  }
  // Typed flags are fixed; the plan may be smaller without them.
  std::vector<Plan> lower;
  for (Plan &other : neighbours(planner, *smallest))
    if (other.device() < smallest->device())
      lower.push_back(std::move(other));
  llvm::stable_sort(lower, [](const Plan &a, const Plan &b) { return a.device() < b.device(); });
  os << "  what would lower it:\n";
  for (const Plan &other : lower)
    printChange(*smallest, other, os);
  os << "  a smaller --dim, or more ranks in --mesh with --shard full\n";
}

/// Wraps nothing, pads to columns: rows of text.
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

std::string shale::printComparison(Planner &planner, const CompileOptions &options, StringRef list, raw_ostream &os) {
  std::vector<std::pair<const Knob *, std::vector<std::string>>> axes;
  SmallVector<StringRef> names;
  list.split(names, ',');
  for (StringRef part : names) {
    auto [name, values] = part.trim().split('=');
    const Knob *knob = knobNamed(name);
    if (!knob) {
      std::string known;
      for (const Knob &each : allKnobs())
        known += (known.empty() ? "" : ", ") + std::string(each.flag);
      return ("'" + name + "' is none of " + known).str();
    }
    axes.push_back({knob, knob->values});
    if (!values.empty()) {
      SmallVector<StringRef> chosen;
      values.split(chosen, '|');
      axes.back().second.clear();
      for (StringRef value : chosen)
        axes.back().second.push_back(value.str());
    }
  }
  std::vector<CompileOptions> variants = {options};
  for (auto &[knob, values] : axes) {
    std::vector<CompileOptions> longer;
    for (const CompileOptions &each : variants)
      for (const std::string &value : values) {
        longer.push_back(each);
        knob->set(longer.back(), value);
      }
    variants = std::move(longer);
  }
  std::vector<std::vector<std::string>> rows = {{"device", "host", "wire bytes", "extra flops", "step ms", "flags"}};
  int64_t base = -1;
  for (const CompileOptions &variant : variants) {
    std::string flags, wrong;
    for (auto &[knob, values] : axes)
      flags += (flags.empty() ? "--" : " --") + std::string(knob->flag) + " " + knob->get(variant);
    FailureOr<Plan> plan = planner.plan(variant, &wrong);
    if (failed(plan)) {
      rows.push_back({"-", "-", "-", "-", "-", flags + "   (" + StringRef(wrong).take_front(100).str() + ")"});
      continue;
    }
    if (base < 0)
      base = plan->summary.flops;
    std::string ms;
    llvm::raw_string_ostream(ms) << llvm::format("%.4g", plan->seconds * 1e3);
    rows.push_back({std::to_string(plan->device()), std::to_string(plan->host()), std::to_string(plan->summary.sentBytes),
                    signedNumber(plan->summary.flops - base), ms, flags});
  }
  os << "plans         bytes of a rank; flops beside the first row's; step time predicted, for ordering\n";
  printTable(rows, os);
  return "";
}
