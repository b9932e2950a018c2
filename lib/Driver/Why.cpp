//===- Why.cpp - Why a tensor is in memory --------------------------------===//
#include "lib/Analysis/Timeline.h"
#include "lib/Driver/Planner.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace shale;

static std::string phaseOf(Operation *op) {
  auto phase = op->getAttrOfType<nn::PhaseAttr>(nn::kPhaseAttr);
  return phase ? " in " + nn::stringifyPhase(phase.getValue()).str() : "";
}

/// "op 12, rt.launch @add_0, node 'n'"
static std::string describe(const Timeline &timeline, int64_t position) {
  Operation *op = timeline.ops[position];
  std::string text = "op " + std::to_string(position) + ", " + op->getName().stripDialect().str();
  if (auto launch = dyn_cast<rt::LaunchOp>(op))
    text += " of " + launch.getKernel().str();
  if (std::string node = sourceNode(op->getLoc()); !node.empty())
    text += ", node '" + node + "'";
  return text + phaseOf(op);
}

/// Positions at which something of the tensor's buffer is an operand.
static std::vector<int64_t> touches(const Timeline &timeline, const LiveTensor &tensor) {
  std::vector<int64_t> positions;
  for (int64_t at = tensor.begin; at <= tensor.end && at < int64_t(timeline.ops.size()); ++at)
    if (isa<MemoryEffectOpInterface>(timeline.ops[at]) && !isMemoryEffectFree(timeline.ops[at]) &&
        llvm::any_of(timeline.ops[at]->getOperands(), [&](Value operand) {
          return isa<MemRefType>(operand.getType()) && rt::allocationOf(operand).getOperation() == tensor.buffer;
        }))
      positions.push_back(at);
  return positions;
}

static bool matches(const LiveTensor &tensor, StringRef name, bool whole) {
  return whole ? tensor.name == name || tensor.source == name
               : StringRef(tensor.name).contains(name) || StringRef(tensor.source).contains(name);
}

static void printLife(const Timeline &timeline, const LiveTensor &tensor, raw_ostream &os) {
  os << tensor.name << (tensor.source.empty() ? "" : " (node '" + tensor.source + "')") << ": " << tensor.bytes << " bytes, "
     << rt::stringifyCategory(tensor.category) << ", in @" << timeline.function << "\n";
  os << "  made by       " << describe(timeline, tensor.begin) << "\n";
  std::vector<int64_t> positions = touches(timeline, tensor);
  os << "  touched by    " << positions.size() << " ops, last by " << describe(timeline, tensor.end) << "\n";
  if (tensor.begin > timeline.peak || timeline.peak > tensor.end) {
    os << "  at the peak   not there: op " << timeline.peak << " has the peak, it lives from " << tensor.begin << " to " << tensor.end << "\n";
    return;
  }
  auto next = llvm::find_if(positions, [&](int64_t at) { return at >= timeline.peak; });
  os << "  at the peak   alive at op " << timeline.peak << ", kept for " << describe(timeline, next == positions.end() ? tensor.end : *next) << "\n";
}

bool shale::printWhy(Planner &planner, const Plan &plan, StringRef name, raw_ostream &os) {
  std::vector<Timeline> timelines;
  ModuleOp module = plan.module.get();
  for (auto function : module.getOps<rt::FuncOp>())
    if (FailureOr<Timeline> timeline = timelineOf(function); succeeded(timeline))
      timelines.push_back(std::move(*timeline));
  llvm::stable_sort(timelines, [](const Timeline &a, const Timeline &b) { return a.peakBytes > b.peakBytes; });
  const LiveTensor *first = nullptr;
  unsigned shown = 0;
  for (bool whole : {true, false}) {
    for (const Timeline &timeline : timelines)
      for (const LiveTensor &tensor : timeline.tensors)
        if (matches(tensor, name, whole) && shown < 4) {
          printLife(timeline, tensor, os);
          first = first ? first : &tensor;
          ++shown;
        }
    for (const LiveTensor &tensor : timelines.empty() ? std::vector<LiveTensor>() : timelines.front().state)
      if (matches(tensor, name, whole) && shown < 4) {
        os << tensor.name << ": " << tensor.bytes << " bytes of state (" << rt::stringifyCategory(tensor.category)
           << "), there all the time\n";
        ++shown;
      }
    if (shown)
      break;
  }
  if (!shown) {
    llvm::errs() << "shalec: error: --why: no tensor and no node is named '" << name << "'; --report memory lists them\n";
    return false;
  }
  os << "  other choices, each alone:\n";
  for (const Plan &other : neighbours(planner, plan, /*keepModules=*/true)) {
    if (first && !first->source.empty()) {
      FailureOr<Timeline> timeline = largestTimeline(*other.module);
      if (failed(timeline))
        continue;
      bool alive = llvm::any_of(timeline->liveAt(timeline->peak), [&](const LiveTensor *tensor) {
        return tensor->source == first->source && tensor->name == first->name;
      });
      os << (alive ? "  still there:" : "  gone:       ");
    }
    printChange(plan, other, os);
  }
  return true;
}
