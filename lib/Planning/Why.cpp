//===- Why.cpp - Explains why a tensor is in memory -----------------------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Modules.h"
#include "lib/Analysis/ProgramSummary.h"
#include "lib/Analysis/TimeModel.h"
#include "lib/Analysis/Timeline.h"
#include "lib/Planning/ModelPlanner.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;

/// "op 12, rt.launch @add_0, node 'n'"
static std::string describe(const Timeline &timeline, int64_t position) {
  Operation *op = timeline.ops[position];
  std::string text = "op " + std::to_string(position) + ", " + op->getName().stripDialect().str();
  if (auto launch = dyn_cast<rt::LaunchOp>(op))
    text += " of " + launch.getKernel().str();
  if (std::string node = sourceNode(op->getLoc()); !node.empty())
    text += ", node '" + node + "'";
  if (nn::PhaseAttr phase = nn::phaseOf(op))
    text += " in " + nn::stringifyPhase(phase.getValue()).str();
  return text;
}

/// Returns the positions of ops that have the tensor's buffer, or a part of it, as an operand.
static std::vector<int64_t> touches(const Timeline &timeline, const LiveTensor &tensor) {
  std::vector<int64_t> positions;
  for (int64_t at = tensor.begin; at <= tensor.end && at < int64_t(timeline.ops.size()); ++at)
    if (isa<MemoryEffectOpInterface>(timeline.ops[at]) && !isMemoryEffectFree(timeline.ops[at]) &&
        llvm::any_of(timeline.ops[at]->getOperands(), [&](Value operand) {
          return isa<MemRefType>(operand.getType()) &&
                 rt::allocationOf(operand).getOperation() == tensor.buffer;
        }))
      positions.push_back(at);
  return positions;
}

/// "4194304 flops, 21.3 a byte moved"; empty for an op that only moves bytes.
static std::string costOf(Operation *op) {
  int64_t flops = callFlops(op), moved = 0;
  for (Value operand : op->getOperands())
    if (auto type = dyn_cast<MemRefType>(operand.getType()))
      moved += std::max<int64_t>(0, rt::bufferBytes(type));
  return flops == 0 ? ""
                    : llvm::formatv(", {0} flops, {1:f1} a byte moved", flops,
                                    double(flops) / std::max<int64_t>(1, moved))
                          .str();
}

namespace {
/// Whether a node's forward results are kept, recomputed or offloaded.
struct Fate {
  /// Bytes that wait for the backward pass on the device, or wait in host memory.
  int64_t keptBytes = 0, hostBytes = 0;
  /// Floating-point operations that recompute it, in calls that compute nothing else.
  int64_t againFlops = 0;
  bool recomputed = false;
  /// Whether a kernel recomputes it that computes other values, too.
  bool besideOthers = false;

  /// Returns one or two words, for a list of choices.
  std::string word() const {
    std::string text = recomputed ? "recomputed" : "";
    if (hostBytes)
      text += (text.empty() ? "" : "+") + std::string("offloaded");
    return text.empty() ? (keptBytes ? "kept" : "not kept") : text;
  }
};
} // namespace

/// Whether a call computes values of a node again.
static bool recomputes(Operation *call, StringRef node) {
  if (auto nodes = call->getAttrOfType<ArrayAttr>(mem::kRecomputesAttr))
    return llvm::is_contained(nodes.getAsValueRange<StringAttr>(), node);
  return call->hasAttr(mem::kRecomputedAttr) && sourceNode(call->getLoc()) == node;
}

static Fate fateOf(ArrayRef<Timeline> timelines, StringRef source) {
  Fate fate;
  for (const Timeline &timeline : timelines) {
    for (const LiveTensor &tensor : timeline.tensors) {
      if (tensor.source != source)
        continue;
      if (tensor.memory == mem::Memory::Host)
        fate.hostBytes += tensor.bytes;
      else if (nn::isInPhase(tensor.maker, nn::Phase::Forward) &&
               nn::isInPhase(tensor.lastReader, nn::Phase::Backward))
        fate.keptBytes += tensor.bytes;
    }
    for (Operation *op : timeline.ops) {
      if (!recomputes(op, source))
        continue;
      if (op->hasAttr(mem::kRecomputedAttr)) {
        fate.recomputed = true;
        fate.againFlops += callFlops(op);
      } else {
        fate.besideOthers = true;
      }
    }
  }
  // If the node's result is kept, such a kernel recomputes only a conversion of it.
  fate.besideOthers &= fate.keptBytes + fate.hostBytes == 0;
  fate.recomputed |= fate.besideOthers;
  return fate;
}

static void printFate(const Fate &fate, const CompileOptions &options, raw_ostream &os) {
  os << "  recomputed    ";
  if (fate.recomputed) {
    os << "yes, for the backward pass";
    if (fate.againFlops || !fate.besideOthers)
      os << ": " << fate.againFlops << " flops per step";
    if (fate.besideOthers)
      os << (fate.againFlops ? ", and" : ",") << " in a kernel that computes other values, too";
  } else if (fate.keptBytes || fate.hostBytes)
    os << "no, --recompute " << textOf(options.recompute)
       << " keeps it: " << fate.keptBytes + fate.hostBytes << " bytes wait for the backward pass";
  else
    os << "no, nothing of it is read after the forward pass";
  os << "\n  offloaded     ";
  if (fate.hostBytes)
    os << "yes, " << fate.hostBytes << " bytes wait in host memory";
  else if (fate.recomputed)
    os << "no, it is not kept";
  else if (fate.keptBytes)
    os << "no, --offload " << textOf(options.offload) << " leaves " << fate.keptBytes
       << " bytes on the device";
  else
    os << "no, nothing of it waits";
  os << "\n";
}

/// Prints how often a gathered parameter is gathered, and the flag that would keep it gathered.
static void printGathers(const Timeline &timeline, const LiveTensor &tensor,
                         const CompileOptions &options, raw_ostream &os) {
  int64_t gathers = 0;
  for (Operation *op : timeline.ops)
    if (auto start = dyn_cast<rt::CollectiveOpInterface>(op);
        start && shale::gathers(start.getCollectiveKind()))
      gathers += start.getName() == tensor.name;
  if (gathers)
    os << "  gathered      " << gathers << " times in @" << timeline.function
       << ", --reshard-after-forward=" << (options.reshardAfterForward ? "true" : "false") << "\n";
}

static std::vector<Timeline> timelinesOf(ModuleOp module) {
  std::vector<Timeline> timelines;
  for (auto function : module.getOps<rt::FuncOp>())
    if (FailureOr<Timeline> timeline = timelineOf(function); succeeded(timeline))
      timelines.push_back(std::move(*timeline));
  llvm::stable_sort(timelines, [](const Timeline &a, const Timeline &b) {
    return a.peakBytes.device > b.peakBytes.device;
  });
  return timelines;
}

static bool matches(const LiveTensor &tensor, StringRef name, bool whole) {
  return whole ? tensor.name == name || tensor.source == name
               : StringRef(tensor.name).contains(name) || StringRef(tensor.source).contains(name);
}

static void printLife(const Timeline &timeline, const LiveTensor &tensor, raw_ostream &os) {
  os << tensor.name << (tensor.source.empty() ? "" : " (node '" + tensor.source + "')") << ": "
     << tensor.bytes << " bytes, " << rt::stringifyCategory(tensor.category) << ", in @"
     << timeline.function << (tensor.memory == mem::Memory::Host ? ", in host memory" : "") << "\n";
  os << "  made by       " << describe(timeline, tensor.begin) << costOf(tensor.maker) << "\n";
  std::vector<int64_t> positions = touches(timeline, tensor);
  os << "  touched by    " << positions.size() << " ops, last by " << describe(timeline, tensor.end)
     << "\n";
  int64_t peak = timeline.peak[tensor.memory];
  if (tensor.begin > peak || peak > tensor.end) {
    os << "  at the peak   not live: the peak is at op " << peak << ", the tensor is live from op "
       << tensor.begin << " to op " << tensor.end << "\n";
    return;
  }
  auto next = llvm::find_if(positions, [&](int64_t at) { return at >= peak; });
  os << "  at the peak   alive at op " << peak << ", kept for "
     << describe(timeline, next == positions.end() ? tensor.end : *next) << "\n";
}

namespace {
/// The tensors that a name on the command line refers to.
struct Subject {
  std::string name;  ///< name of a tensor, source node or unit
  std::string group; ///< if a parameter: the group of unit `name` that holds it

  bool isParameter() const { return !group.empty(); }
  bool is(const LiveTensor &tensor, bool whole) const {
    if (!isParameter())
      return matches(tensor, name, whole);
    // The parameter's gathered unit, and the stored state of its group.
    return tensor.name == name || tensor.name == group ||
           StringRef(tensor.name).starts_with(group + ".");
  }
};
} // namespace

/// Returns how long the bytes of a split take per step over tensor axes, with a latency for each
/// sum and without overlap; of several axes, over the slowest one.
static double secondsOf(ModuleOp module, dist::SplitCostAttr cost, const Rates &machine) {
  double most = 0;
  dist::MeshOp mesh = dist::getMesh(module);
  for (auto name : mesh.getAxes().getAsRange<StringAttr>()) {
    int64_t ranks = mesh.getSize(name);
    if (!mesh.splitsValues(name) || ranks == 1)
      continue;
    AxisLink link = linkOfAxis(module, name, machine);
    double others = double(ranks - 1) / double(ranks);
    double bytes = others * (double(cost.getGathered()) + 2 * double(cost.getReduced()));
    most = std::max(most, bytes / link.rate + double(cost.getSums()) * link.latency);
  }
  return most;
}

/// Prints why tensor axes split a parameter as they do, and what each way to split it costs.
static void printSplit(ModuleOp module, nn::StateOp state, const Rates &machine, raw_ostream &os) {
  auto plan = state->getAttrOfType<StringAttr>(dist::kPlanAttr);
  if (!plan)
    return;
  os << "  tensor axes   " << plan.getValue() << "\n";
  auto costs = state->getAttrOfType<ArrayAttr>(dist::kPlanCostsAttr);
  if (!costs)
    return;
  for (auto cost : costs.getAsRange<dist::SplitCostAttr>())
    os << "    " << (cost.getChosen() ? "chosen " : "rejected ")
       << dist::stringifyTensorSplit(cost.getSplit()) << ": " << cost.getGathered()
       << " bytes gathered, " << cost.getWhole() << " elements whole, " << cost.getReduced()
       << " bytes in " << cost.getSums() << " sums, "
       << llvm::formatv("{0:F3} ms", 1e3 * secondsOf(module, cost, machine)) << "\n";
}

/// Finds parameters, inputs and outputs by their names in the model; prints what they are. Sets
/// `done` for an input, about which there is nothing more to print.
static Subject findSubject(ModuleOp module, StringRef name, const Rates &machine, raw_ostream &os,
                           bool &done) {
  for (auto state : module.getOps<nn::StateOp>()) {
    auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
    nn::StateOp divided = part ? nn::getState(state, part.getWhole()) : nn::StateOp();
    if (divided && part.getBegin() == 0 && llvm::is_contained(namesOf(divided), name)) {
      if (part.getPadding())
        os << name << ": its " << divided.getTensorType().getDimSize(0)
           << " rows do not divide over the tensor ranks; a parameter with " << part.getPadding()
           << " rows of zeros stands for it: " << state.getSymName() << "\n";
      else
        os << name << ": a matmul with it is cut, so each part is a parameter of its own: "
           << state.getSymName() << " and those after it\n";
      return findSubject(module, state.getSymName(), machine, os, done);
    }
    if (state.getRole() != nn::Role::Param || state->hasAttr(dist::kUnitAttr) ||
        !llvm::is_contained(namesOf(state), name))
      continue;
    for (auto unit : module.getOps<dist::UnitOp>())
      for (auto group : unit.getGroups().getAsRange<dist::GroupAttr>())
        if (dist::SegmentAttr segment = group.getSegment(state.getSymName())) {
          os << name << (name == state.getSymName() ? "" : " (" + state.getSymName() + ")").str()
             << ": a parameter of " << nn::tensorBytes(state.getTensorType()) << " bytes in unit '"
             << unit.getSymName() << "', elements " << segment.getOffset() << " to "
             << segment.getOffset() + segment.getCount() << " of " << group.getCount()
             << "; it is kept, gathered and offloaded with its unit:\n";
          printSplit(module, state, machine, os);
          return {unit.getSymName().str(),
                  (unit.getSymName() + "." + group.getName().getValue()).str()};
        }
  }
  for (auto function : module.getOps<rt::FuncOp>())
    for (auto input : function.getInputs().getAsRange<DictionaryAttr>())
      if (auto known = input.getAs<StringAttr>("name"); known && known.getValue() == name) {
        Type type = input.getAs<TypeAttr>("type").getValue();
        os << name << ": an input, " << type << " of a rank, "
           << nn::tensorBytes(cast<RankedTensorType>(type))
           << " bytes, there all the time; it is neither recomputed nor offloaded\n";
        done = true;
        return {};
      }
  if (auto outputs = module->getAttrOfType<DictionaryAttr>(nn::kOutputsAttr))
    if (auto node = outputs.getAs<StringAttr>(name)) {
      os << name << ": an output, made by node '" << node.getValue() << "':\n";
      return {node.getValue().str(), ""};
    }
  return {name.str(), ""};
}

bool shale::printWhy(ModelPlanner &planner, const ModelPlan &plan, StringRef name,
                     raw_ostream &os) {
  bool done = false;
  Subject subject = findSubject(*plan.module, name, *plan.options.machine, os, done);
  if (done)
    return true;
  std::vector<Timeline> timelines = timelinesOf(*plan.module);
  const LiveTensor *first = nullptr;
  unsigned shown = 0, most = subject.isParameter() ? 12 : 4;
  for (bool whole : {true, false}) {
    for (const Timeline &timeline : timelines)
      for (const LiveTensor &tensor : timeline.tensors)
        if (subject.is(tensor, whole) && shown < most) {
          printLife(timeline, tensor, os);
          if (tensor.category == rt::Category::Parameters)
            printGathers(timeline, tensor, plan.options, os);
          first = first ? first : &tensor;
          ++shown;
        }
    for (const LiveTensor &tensor :
         timelines.empty() ? std::vector<LiveTensor>() : timelines.front().state)
      if (subject.is(tensor, whole) && shown < most) {
        os << tensor.name << ": " << tensor.bytes << " bytes of state ("
           << rt::stringifyCategory(tensor.category) << "), there all the time\n  offloaded     "
           << (tensor.memory == mem::Memory::Host
                   ? "yes, it is stored in host memory"
                   : "no, --offload " + textOf(plan.options.offload) + " leaves it on the device")
           << "\n";
        ++shown;
      }
    if (shown)
      break;
  }
  if (!shown)
    return false;
  bool made = first && !first->source.empty() && !subject.isParameter();
  if (made)
    printFate(fateOf(timelines, first->source), plan.options, os);
  os << "  other values, one flag at a time" << (made ? ", with their effect on this tensor" : "")
     << ":\n";
  for (const ModelPlan &other : neighbours(planner, plan, /*keepModules=*/true)) {
    if (made)
      os << "  "
         << llvm::left_justify(fateOf(timelinesOf(*other.module), first->source).word(), 20);
    printChange(plan, other, os);
  }
  return true;
}
