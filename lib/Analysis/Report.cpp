//===- Report.cpp - A plan as text and JSON -------------------------------===//
#include "lib/Analysis/Report.h"
#include "dialects/dist/Dist.h"
#include "lib/Analysis/MemoryPage.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

ReportForm shale::reportFormOf(StringRef path) {
  return path.ends_with(".json")   ? ReportForm::Json
         : path.ends_with(".html") ? ReportForm::Html
                                   : ReportForm::Text;
}

static llvm::json::Object tensorJson(const LiveTensor &tensor) {
  return llvm::json::Object{{"name", tensor.name},
                            {"node", tensor.source},
                            {"category", rt::stringifyCategory(tensor.category)},
                            {"memory", mem::stringifyMemory(tensor.memory)},
                            {"space", rt::stringifySpace(tensor.space)},
                            {"bytes", tensor.bytes},
                            {"offset", tensor.offset},
                            {"begin", tensor.begin},
                            {"end", tensor.end}};
}

/// Returns the position of the first op of the forward, backward and update phase.
static llvm::json::Array phasesOf(const Timeline &timeline) {
  llvm::json::Array phases;
  int last = -1;
  for (auto [position, op] : llvm::enumerate(timeline.ops)) {
    nn::PhaseAttr phase = nn::phaseOf(op);
    if (!phase || int(phase.getValue()) <= last)
      continue;
    last = int(phase.getValue());
    phases.push_back(llvm::json::Object{{"name", nn::stringifyPhase(phase.getValue())},
                                        {"begin", int64_t(position)}});
  }
  return phases;
}

/// Returns the memory report as JSON: the lines of the plan, then each function with its
/// tensors and, by position, the source node of each op.
static llvm::json::Object memoryJson(const ProgramSummary &summary, ArrayRef<Timeline> timelines) {
  llvm::json::Array lines, functions, state;
  for (const PlanLine &line : summary.lines)
    lines.push_back(llvm::json::Object{{"category", rt::stringifyCategory(line.category)},
                                       {"memory", mem::stringifyMemory(line.memory)},
                                       {"what", line.what},
                                       {"bytes", line.bytes},
                                       {"held", line.holder != PlanLine::Process}});
  for (const Timeline &timeline : timelines) {
    llvm::json::Array tensors, ops;
    for (const LiveTensor &tensor : timeline.tensors)
      tensors.push_back(tensorJson(tensor));
    for (Operation *op : timeline.ops)
      ops.push_back(sourceNode(op->getLoc()));
    functions.push_back(llvm::json::Object{{"name", timeline.function},
                                           {"peak", timeline.peak.device},
                                           {"peak_bytes", timeline.peakBytes.device},
                                           {"host_peak", timeline.peak.host},
                                           {"host_peak_bytes", timeline.peakBytes.host},
                                           {"phases", phasesOf(timeline)},
                                           {"tensors", std::move(tensors)},
                                           {"ops", std::move(ops)}});
  }
  if (!timelines.empty())
    for (const LiveTensor &tensor : timelines.front().state)
      state.push_back(tensorJson(tensor));
  return llvm::json::Object{{"peak_bytes", summary.peakBytes()},
                            {"device_peak_bytes", summary.peakBytes(mem::Memory::Device)},
                            {"host_peak_bytes", summary.peakBytes(mem::Memory::Host)},
                            {"state_bytes", summary.stateBytes.device},
                            {"arena_bytes", summary.arenaBytes.device},
                            {"host_state_bytes", summary.stateBytes.host},
                            {"host_arena_bytes", summary.arenaBytes.host},
                            {"save_copy_bytes", summary.saveCopyBytes},
                            {"ranks", summary.ranks},
                            {"lines", std::move(lines)},
                            {"state", std::move(state)},
                            {"functions", std::move(functions)}};
}

static void printMemory(const ProgramSummary &summary, ArrayRef<Timeline> timelines,
                        raw_ostream &os) {
  os << "memory of a rank, " << summary.ranks << " rank(s), peak " << summary.peakBytes()
     << " bytes";
  if (summary.offloads())
    os << ", " << summary.peakBytes(mem::Memory::Device) << " of the device and "
       << summary.peakBytes(mem::Memory::Host) << " of the host";
  os << "\n";
  for (const PlanLine &line : summary.lines)
    os << llvm::format("  %15lld  ", (long long)line.bytes)
       << llvm::left_justify(rt::stringifyCategory(line.category), 14)
       << llvm::left_justify(summary.offloads() ? mem::stringifyMemory(line.memory) : "",
                             summary.offloads() ? 8 : 0)
       << line.what << "\n";
  for (const Timeline &timeline : timelines)
    for (mem::Memory memory : mem::kMemories) {
      bool host = memory == mem::Memory::Host;
      if (host && timeline.peakBytes.host == 0)
        continue;
      int64_t peak = timeline.peak[memory];
      os << "@" << timeline.function << ": " << timeline.peakBytes[memory] << " bytes of the "
         << (host ? "host's " : "") << "arena live at op " << peak << " of " << timeline.ops.size()
         << "\n  bytes            category      life           tensor (source node)\n";
      for (const LiveTensor *tensor : timeline.liveAt(peak, memory))
        os << llvm::format("  %15lld  ", (long long)tensor->bytes)
           << llvm::left_justify(rt::stringifyCategory(tensor->category), 14)
           << llvm::left_justify(std::to_string(tensor->begin) + "-" + std::to_string(tensor->end),
                                 15)
           << tensor->name << (tensor->source.empty() ? "" : " (" + tensor->source + ")") << "\n";
    }
}

LogicalResult shale::reportMemory(ModuleOp module, const ProgramSummary &summary, ReportForm form,
                                  raw_ostream &os) {
  std::vector<Timeline> timelines;
  for (auto function : module.getOps<rt::FuncOp>()) {
    FailureOr<Timeline> timeline = timelineOf(function);
    if (failed(timeline))
      return failure();
    timelines.push_back(std::move(*timeline));
  }
  llvm::stable_sort(timelines, [](const Timeline &a, const Timeline &b) {
    return a.peakBytes.device > b.peakBytes.device;
  });
  if (form == ReportForm::Text)
    return printMemory(summary, timelines, os), success();
  llvm::json::Value value = memoryJson(summary, timelines);
  if (form == ReportForm::Json)
    os << value << "\n";
  else
    writeMemoryPage(value, os);
  return success();
}

namespace {
/// One collective of a function, from its start to its wait.
struct Exchange {
  std::string kind, name, axis, type, function, phase, longest;
  int64_t site, bytes, sent, start, wait, ops, nodes;
  double begin, seconds, exposed;

  std::string overlaps() const {
    return ops == 0 ? "nothing"
                    : std::to_string(ops) + " ops" +
                          (longest.empty() ? "" : ", the longest at '" + longest + "'");
  }
};

/// Returns a name for an op: its source node, else the buffer that it writes, else the op's name.
std::string nameOf(Operation *op) {
  std::string name = sourceNode(op->getLoc());
  if (!name.empty())
    return name;
  auto launch = dyn_cast<rt::LaunchOp>(op);
  Value written = launch && !launch.getOutputs().empty() ? launch.getOutputs().front()
                  : op->getNumOperands()                 ? op->getOperands().back()
                                                         : Value();
  rt::BufferOp buffer = written ? rt::allocationOf(written) : rt::BufferOp();
  return buffer && !buffer.getName().empty() ? buffer.getName().str()
                                             : op->getName().stripDialect().str();
}
} // namespace

static std::vector<Exchange> exchangesOf(ModuleOp module, rt::FuncOp function,
                                         const TimedStep &timed, const Rates &rates) {
  std::vector<Exchange> list;
  DenseMap<Operation *, int64_t> positions;
  for (Operation &op : function.getBody().front())
    positions.try_emplace(&op, positions.size());
  DenseMap<Operation *, const TimedOp *> times;
  for (const TimedOp &op : timed.ops)
    times[op.op] = &op;
  StringRef phase = "forward"; // the phase of the current op
  auto add = [&](rt::CollectiveOpInterface start, int64_t sent) {
    Exchange e;
    Operation *wait = start->use_empty() ? start.getOperation() : *start->user_begin();
    e.kind = nameOf(start.getCollectiveKind()).str();
    e.name = start.getName().str();
    e.axis = start.getAxisAttr().str();
    llvm::raw_string_ostream(e.type) << start.getSend().getType().getElementType();
    e.function = function.getSymName().str();
    e.site = start.getSite();
    e.bytes = rt::bufferBytes(start.getRecv().getType());
    e.sent = sent;
    e.start = positions.lookup(start);
    e.wait = positions.lookup(wait);
    e.ops = 0;
    e.nodes = linkOfAxis(module, e.axis, rates).nodes;
    double longestSeconds = -1;
    const TimedOp *own = times.lookup(start);
    for (Operation *op = start->getNextNode(); op && op != wait; op = op->getNextNode()) {
      const TimedOp *timedOp = times.lookup(op);
      if (!timedOp || timedOp->stream != TimedOp::Compute)
        continue;
      ++e.ops;
      if (timedOp->end - timedOp->begin > longestSeconds) {
        longestSeconds = timedOp->end - timedOp->begin;
        e.longest = nameOf(op);
      }
    }
    e.phase = phase.str();
    e.begin = own ? own->begin : 0;
    e.seconds = own ? own->end - own->begin : 0;
    e.exposed = own ? own->exposed : 0;
    list.push_back(std::move(e));
  };
  for (Operation &op : function.getBody().front()) {
    if (nn::PhaseAttr attr = nn::phaseOf(&op))
      phase = nn::stringifyPhase(attr.getValue());
    if (auto collective = dyn_cast<rt::CollectiveOpInterface>(op))
      add(collective, collective.getSentBytes(std::max<int64_t>(
                          1, dist::getAxisSize(module, collective.getAxisAttr()))));
  }
  return list;
}

/// Prints what each axis sends and what that adds to the function, and what else its time is.
static void printAxes(ModuleOp module, const TimedStep &timed, ArrayRef<Exchange> exchanges,
                      const Rates &rates, raw_ostream &os) {
  struct Sum {
    int64_t count = 0, sent = 0;
    double seconds = 0, exposed = 0;
  };
  llvm::MapVector<StringRef, Sum> sums;
  double copies = 0;
  for (const Exchange &e : exchanges) {
    Sum &sum = sums[e.axis];
    ++sum.count;
    sum.sent += e.sent;
    sum.seconds += e.seconds;
    sum.exposed += e.exposed;
  }
  for (const TimedOp &op : timed.ops)
    copies += op.stream == TimedOp::Copy ? op.exposed : 0;
  for (const auto &[axis, sum] : sums) {
    AxisLink link = linkOfAxis(module, axis, rates);
    os << "  axis " << axis << ", "
       << (link.leavesNode() ? "over " + std::to_string(link.nodes) + " nodes" : "within a node")
       << llvm::format(" (%.4g GB/s a rank): ", link.rate / 1e9) << sum.count << " collectives, "
       << sum.sent << " bytes sent, "
       << llvm::format("%.3f ms, of which compute waits %.3f ms\n", sum.seconds * 1e3,
                       sum.exposed * 1e3);
  }
  os << llvm::format("  critical path %.3f ms: compute %.3f", timed.seconds * 1e3,
                     (timed.seconds - timed.waitSeconds) * 1e3);
  for (const auto &[axis, sum] : sums)
    os << ", " << axis << llvm::format(" %.3f", sum.exposed * 1e3);
  os << llvm::format(", copies %.3f\n", copies * 1e3);
}

LogicalResult shale::reportCommunication(ModuleOp module, const Rates &rates, ReportForm form,
                                         raw_ostream &os) {
  llvm::json::Array all;
  if (form != ReportForm::Json)
    os << "collectives of a rank; times by the rates of '" << rates.name << "', for ordering\n"
       << "  site  kind            axis      type           sent bytes  ops         phase      at ms       ms    exposed  what | overlapped with\n";
  for (auto function : module.getOps<rt::FuncOp>()) {
    if (form != ReportForm::Json)
      os << "@" << function.getSymName() << "\n";
    TimedStep timed = timeFunction(function, rates);
    std::vector<Exchange> exchanges = exchangesOf(module, function, timed, rates);
    for (const Exchange &e : exchanges) {
      if (form == ReportForm::Json) {
        all.push_back(llvm::json::Object{{"function", e.function},
                                         {"site", e.site},
                                         {"kind", e.kind},
                                         {"name", e.name},
                                         {"axis", e.axis},
                                         {"nodes", e.nodes},
                                         {"type", e.type},
                                         {"bytes", e.bytes},
                                         {"sent_bytes", e.sent},
                                         {"start", e.start},
                                         {"wait", e.wait},
                                         {"phase", e.phase},
                                         {"begin_seconds", e.begin},
                                         {"seconds", e.seconds},
                                         {"exposed_seconds", e.exposed},
                                         {"overlapped_ops", e.ops},
                                         {"overlapped_longest", e.longest},
                                         {"overlapped_with", e.overlaps()}});
        continue;
      }
      os << llvm::format("  %4lld  ", (long long)e.site) << llvm::left_justify(e.kind, 16)
         << llvm::left_justify(e.axis, 10) << llvm::left_justify(e.type, 6)
         << llvm::format("%19lld  ", (long long)e.sent)
         << llvm::left_justify(std::to_string(e.start) + "-" + std::to_string(e.wait), 12)
         << llvm::left_justify(e.phase, 9)
         << llvm::format("%7.1f  %7.3f %10.3f  ", e.begin * 1e3, e.seconds * 1e3, e.exposed * 1e3)
         << e.name << " | " << e.overlaps() << "\n";
    }
    if (form != ReportForm::Json && !exchanges.empty())
      printAxes(module, timed, exchanges, rates, os);
  }
  if (form == ReportForm::Json)
    os << llvm::json::Value(std::move(all)) << "\n";
  return success();
}
