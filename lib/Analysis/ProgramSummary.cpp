//===- ProgramSummary.cpp - Memory, traffic and work of a planned program -===//
#include "lib/Analysis/ProgramSummary.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/ProgramLiveness.h"
#include "lib/Analysis/Timeline.h"
#include "lib/Analysis/UnitsAtOnce.h"
#include "lib/Target/Target.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include <map>

using namespace mlir;
using namespace shale;

int64_t ProgramSummary::peakBytes(mem::Memory memory) const {
  int64_t sum = 0;
  for (const PlanLine &line : lines)
    sum += line.memory == memory ? line.bytes : 0;
  return sum;
}

int64_t ProgramSummary::peakBytes() const {
  return peakBytes(mem::Memory::Device) + peakBytes(mem::Memory::Host);
}

/// Returns the padding of a state in bytes: one rank's share of the padding of its group.
static int64_t paddingOf(ModuleOp module, rt::SlotOp slot) {
  auto state = module.lookupSymbol<nn::StateOp>(rt::stateNameOf(slot.getSymName()));
  auto unitName =
      state ? state->getAttrOfType<FlatSymbolRefAttr>(dist::kUnitAttr) : FlatSymbolRefAttr();
  auto index = state ? state->getAttrOfType<IntegerAttr>(dist::kGroupAttr) : IntegerAttr();
  auto unit = unitName ? module.lookupSymbol<dist::UnitOp>(unitName.getAttr()) : dist::UnitOp();
  if (!unit || !index)
    return 0;
  dist::GroupAttr group = unit.getGroup(index.getInt());
  int64_t used = 0;
  for (auto segment : group.getSegments().getAsRange<dist::SegmentAttr>())
    used += segment.getCount();
  auto type = cast<RankedTensorType>(slot.getType());
  int64_t parts =
      std::max<int64_t>(1, group.getCount() / std::max<int64_t>(1, type.getNumElements()));
  return (group.getCount() - used) * nn::elementBytes(type.getElementType()) / parts;
}

/// Returns what a piece of state is, for the plan.
static StringRef describeState(ModuleOp module, rt::SlotOp slot) {
  auto state = module.lookupSymbol<nn::StateOp>(rt::stateNameOf(slot.getSymName()));
  if (state && state.getRole() == nn::Role::Residual)
    return "gradients not sent yet";
  return slot.getCategory() == rt::Category::Parameters  ? "parameters at rest"
         : slot.getCategory() == rt::Category::Gradients ? "gradient accumulators"
                                                         : "optimizer state";
}

static void addState(ModuleOp module, ProgramSummary &summary) {
  for (mem::Memory memory : mem::kMemories) {
    std::map<std::pair<rt::Category, StringRef>, int64_t> bytes; // by category and what it is
    for (auto slot : module.getOps<rt::SlotOp>()) {
      if (slot.getMemory() != memory)
        continue;
      int64_t size = nn::tensorBytes(cast<RankedTensorType>(slot.getType()));
      bytes[{slot.getCategory(), describeState(module, slot)}] += size;
      summary.buffers.push_back({rt::stateNameOf(slot.getSymName()).str(), slot.getCategory(),
                                 rt::Space::State, slot.getOffset(), size, paddingOf(module, slot),
                                 memory});
    }
    int64_t sum = 0;
    for (auto [key, size] : bytes) {
      summary.lines.push_back({key.first, key.second.str(), size, memory, PlanLine::State});
      sum += size;
    }
    int64_t whole = summary.stateBytes[memory];
    if (whole > sum)
      summary.lines.push_back(
          {rt::Category::Parameters, "alignment of state", whole - sum, memory});
  }
}

/// Returns the number of ranks that hold the same part of a state that is whole over the shard
/// axis: all, but for the axes that split its parameters at use.
static int64_t holdersOf(ModuleOp module, nn::StateOp state, int64_t ranks) {
  auto unit = state->getAttrOfType<FlatSymbolRefAttr>(dist::kUnitAttr);
  auto index = state->getAttrOfType<IntegerAttr>(dist::kGroupAttr);
  auto declared = unit ? module.lookupSymbol<dist::UnitOp>(unit.getAttr()) : dist::UnitOp();
  if (!declared || !index)
    return ranks;
  for (auto axis : declared.getGroup(index.getInt()).getAxes().getAsRange<StringAttr>())
    ranks /= dist::getAxisSize(module, axis.getValue());
  return ranks;
}

/// Returns the bytes of the state that one rank writes to a sharded checkpoint, as slicesOf() of
/// runtime/checkpoint/StateLayout.h: of copies of one state the widest, of these the sharded one;
/// state that several ranks hold is split among them.
static int64_t savedBytes(ModuleOp module, int64_t ranks) {
  // By unit and group, or state and -1; and by what the state is of its parameters.
  using Key = std::tuple<std::string, int64_t, std::string>;
  std::map<Key, std::pair<int64_t, rt::SlotOp>> stored; // width in bytes
  int64_t own = 0;                                      // of which no other rank has a copy
  for (auto slot : module.getOps<rt::SlotOp>()) {
    auto state = module.lookupSymbol<nn::StateOp>(rt::stateNameOf(slot.getSymName()));
    if (state && state.getRole() == nn::Role::Residual)
      own += nn::tensorBytes(cast<RankedTensorType>(slot.getType()));
    if (!state || slot.getCategory() == rt::Category::Gradients)
      continue;
    auto unit = state->getAttrOfType<FlatSymbolRefAttr>(dist::kUnitAttr);
    auto group = state->getAttrOfType<IntegerAttr>(dist::kGroupAttr);
    StringRef owner = unit                ? unit.getValue()
                      : state.getOfAttr() ? state.getOfAttr().getValue()
                                          : state.getSymName();
    Key key{owner.str(), unit ? (group ? group.getInt() : 0) : -1,
            state.getSlot().value_or("").str()};
    int64_t width = nn::elementBytes(cast<RankedTensorType>(slot.getType()).getElementType());
    auto &[known, chosen] = stored[key];
    bool sharded = slot.getAxis() && !(chosen && chosen.getAxis());
    if (!chosen || width > known || (width == known && sharded))
      stored[key] = {width, slot};
  }
  int64_t bytes = own;
  for (auto [key, entry] : stored) {
    auto [width, slot] = entry;
    int64_t count = cast<RankedTensorType>(slot.getType()).getNumElements();
    bool whole = !slot.getAxis() || dist::getAxisSize(module, *slot.getAxis()) == 1;
    auto state = module.lookupSymbol<nn::StateOp>(rt::stateNameOf(slot.getSymName()));
    bytes += width * (whole ? llvm::divideCeil(count, holdersOf(module, state, ranks)) : count);
  }
  return bytes;
}

/// Whether the update may begin with `op`. If gradients are reduced during the backward
/// pass, the update begins with the first launch, or copy between the memories, that writes
/// state. If they are reduced at the end (ZeRO-1), it begins with the first reduction.
static bool isUpdate(Operation &op) {
  auto writesState = [](Value output) {
    rt::BufferOp buffer = rt::allocationOf(output);
    return buffer && buffer.getSpace() == rt::Space::State &&
           buffer.getCategory() != rt::Category::Gradients;
  };
  if (auto transfer = dyn_cast<rt::TransferOp>(op))
    return writesState(transfer.getTarget());
  if (!nn::isInPhase(&op, nn::Phase::Update))
    return false;
  auto launch = dyn_cast<rt::LaunchOp>(op);
  auto collective = dyn_cast<rt::CollectiveOpInterface>(op);
  return (collective && sendsAll(collective.getCollectiveKind())) ||
         (launch && llvm::any_of(launch.getOutputs(), writesState));
}

namespace {
/// One function's use of the arena.
struct ArenaUse {
  int64_t peakBytes = 0, unitsAtOnce = 0;
  std::map<rt::Category, int64_t> atPeak;
  std::vector<PlannedBuffer> atUpdate;
};
} // namespace

/// Returns the buffers that copies in flight at `position` write. Their contents are still in the
/// source, too.
static DenseSet<Operation *> filledAt(rt::FuncOp function, const ProgramLiveness &liveness,
                                      int64_t position) {
  DenseSet<Operation *> filled;
  for (auto transfer : function.getBody().front().getOps<rt::TransferOp>())
    if (liveness.positions.lookup(transfer) < position &&
        position < liveness.positions.lookup(*transfer.getToken().user_begin()))
      filled.insert(rt::allocationOf(transfer.getTarget()));
  return filled;
}

static FailureOr<ArenaUse> measureArena(rt::FuncOp function, mem::Memory memory) {
  ProgramLiveness liveness;
  if (failed(liveness.run(function)))
    return failure();
  ArenaUse use;
  use.unitsAtOnce = mostUnitsAtOnce(wholeUnitsOf(function, liveness));
  std::map<int64_t, int64_t> changes;
  for (LiveBuffer &buffer : liveness.buffers)
    if (buffer.op.getSpace() == rt::Space::Arena && buffer.op.getMemory() == memory) {
      int64_t bytes = llvm::alignTo(buffer.bytes, rt::kAlignment);
      changes[buffer.begin] += bytes;
      changes[buffer.end + 1] -= bytes;
    }
  int64_t live = 0, peak = -1, update = -1;
  for (auto [position, change] : changes) {
    live += change;
    if (live > use.peakBytes) {
      use.peakBytes = live;
      peak = position;
    }
  }
  for (Operation &op : function.getBody().front())
    if (update < 0 && isUpdate(op))
      update = liveness.positions[&op];
  DenseSet<Operation *> filled = filledAt(function, liveness, update);
  for (LiveBuffer &buffer : liveness.buffers) {
    rt::BufferOp op = buffer.op;
    if (op.getSpace() != rt::Space::Arena || op.getMemory() != memory)
      continue;
    if (buffer.begin <= peak && peak <= buffer.end)
      use.atPeak[op.getCategory()] += llvm::alignTo(buffer.bytes, rt::kAlignment);
    // Results of the update's first op are not held before the update.
    if (buffer.begin < update && update <= buffer.end)
      use.atUpdate.push_back(
          {op.getName().str(), filled.contains(op) ? rt::Category::Communication : op.getCategory(),
           rt::Space::Arena, op.getOffset(), buffer.bytes, op.getPadding(), memory});
  }
  return use;
}

/// Returns the type that --wire-dtype gives gathers of units; "" if it gives none.
static std::string gatheredAs(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (auto type = module->getAttrOfType<TypeAttr>(dist::kQuantizeGathersAttr))
    os << type.getValue();
  else if (module->hasAttr(dist::kQuantizeGathersAttr))
    os << "8-bit integers";
  return text;
}

static LogicalResult addArena(ModuleOp module, ProgramSummary &summary, mem::Memory memory) {
  ArenaUse largest;
  for (auto function : module.getOps<rt::FuncOp>()) {
    FailureOr<ArenaUse> use = measureArena(function, memory);
    if (failed(use))
      return failure();
    llvm::append_range(summary.buffers, use->atUpdate);
    summary.unitsAtOnce = std::max(summary.unitsAtOnce, use->unitsAtOnce);
    if (use->peakBytes >= largest.peakBytes)
      largest = std::move(*use);
  }
  static const char *const kDevice[] = {
      "units gathered, at the arena's peak",
      "gradients, at the arena's peak",
      "optimizer state, at the arena's peak",
      "activations, at the arena's peak",
      "packed gradients and copies in flight, at the arena's peak",
      "",
      ""};
  static const char *const kHost[] = {"parameters, at the arena's peak",
                                      "gradients, at the arena's peak",
                                      "optimizer state, at the arena's peak",
                                      "activations, at the arena's peak",
                                      "copies in flight, at the arena's peak",
                                      "",
                                      ""};
  const char *const *what = memory == mem::Memory::Host ? kHost : kDevice;
  for (auto [category, bytes] : largest.atPeak)
    summary.lines.push_back({category, what[int(category)], bytes, memory, PlanLine::Arena});
  int64_t whole = summary.arenaBytes[memory];
  if (whole > largest.peakBytes)
    summary.lines.push_back({rt::Category::Workspace, "gaps of the arena",
                             whole - largest.peakBytes, memory, PlanLine::Arena});
  return success();
}

int64_t shale::callsPerStep(rt::FuncOp function) {
  auto count =
      function->getParentOfType<ModuleOp>()->getAttrOfType<IntegerAttr>(nn::kAccumulateAttr);
  StringRef name = function.getSymName();
  if (name == "accumulate")
    return count ? count.getInt() - 2 : 0;
  return name == "step" || name == "accumulate_first";
}

static int64_t elementsOf(Value buffer) {
  return cast<MemRefType>(buffer.getType()).getNumElements();
}

int64_t shale::bucketOf(rt::CollectiveOpInterface start) {
  auto bucket = start->getAttrOfType<IntegerAttr>(rt::kBucketAttr);
  return bucket ? bucket.getInt() : start.getSite();
}

/// Fails unless the numbers of ops are 0, 1, .., each once: they are rows of a table of the
/// program.
static LogicalResult verifyRows(std::vector<std::pair<int64_t, Operation *>> rows, StringRef name) {
  llvm::stable_sort(rows, llvm::less_first());
  for (auto [row, numbered] : llvm::enumerate(rows))
    if (numbered.first != int64_t(row))
      return numbered.second->emitOpError()
             << "expected " << name << " = " << row << ", got " << numbered.first
             << ": the numbers in a module are 0, 1, .., each once";
  return success();
}

/// Fails unless the collectives of each bucket, which run together, start one after the other in
/// one function and have one kind and axis. `starts` are sorted by site.
static LogicalResult verifyBuckets(ArrayRef<rt::CollectiveOpInterface> starts) {
  for (size_t site = 0; site < starts.size(); ++site) {
    rt::CollectiveOpInterface start = starts[site];
    int64_t bucket = bucketOf(start);
    if (bucket == int64_t(site))
      continue;
    rt::CollectiveOpInterface before = site ? starts[site - 1] : start;
    if (bucket > int64_t(site) || bucketOf(before) != bucket ||
        before->getParentOp() != start->getParentOp() ||
        before.getAxisAttr() != start.getAxisAttr() ||
        before.getCollectiveKind() != start.getCollectiveKind())
      return start->emitOpError()
             << "'" << rt::kBucketAttr
             << "' must be the site of the first collective of the bucket; "
             << "those of a bucket have consecutive sites in one function, one kind and one axis";
  }
  return success();
}

int64_t shale::roundsOf(rt::CollectiveOpInterface start, const Target &target) {
  if (!sums(start.getCollectiveKind()))
    return 1;
  auto module = start->getParentOfType<ModuleOp>();
  int64_t ranks = std::max<int64_t>(1, dist::getAxisSize(module, start.getAxisAttr().getValue()));
  int64_t slice = llvm::divideCeil(elementsOf(start.getSend()), ranks);
  return target.reductionRounds(start.getSend().getType().getElementType(), slice, ranks);
}

static LogicalResult addSites(ModuleOp module, ProgramSummary &summary) {
  const Target *target = targetOf(module);
  if (!target)
    return failure();
  std::map<int64_t, int64_t> scratch;
  std::vector<std::pair<int64_t, Operation *>> rows;
  for (auto function : module.getOps<rt::FuncOp>()) {
    int64_t times = callsPerStep(function);
    function.walk([&](rt::CollectiveOpInterface start) {
      StringRef axis = start.getAxisAttr().getValue();
      CollectiveKind kind = start.getCollectiveKind();
      int64_t size = dist::getAxisSize(module, axis), sent = start.getSentBytes(size);
      Type element = start.getSend().getType().getElementType();
      rows.push_back({start.getSite(), start});
      summary.sites.push_back({start.getSite(), start.getName().str(), kind, element,
                               start->getAttr(rt::kEncodingAttr), axis.str(), sent, times,
                               bucketOf(start), 1, roundsOf(start, *target)});
      summary.sentBytes += times * sent;
      if (!sums(kind)) // the runtime adds up in scratch memory
        return;
      int64_t slice = llvm::divideCeil(elementsOf(start.getSend()), std::max<int64_t>(size, 1)) *
                      nn::elementBytes(element);
      // The collectives of a bucket receive at the same time.
      int64_t &together = scratch[bucketOf(start)];
      together += 2 * std::max<int64_t>(size - 1, 1) * llvm::alignTo(slice, 64);
      summary.commScratchBytes = std::max(summary.commScratchBytes,
                                          std::min(together, target->mostReceiveScratch(element)));
    });
  }
  if (failed(verifyRows(rows, "site")))
    return failure();
  llvm::sort(rows, llvm::less_first());
  if (failed(verifyBuckets(llvm::map_to_vector(
          rows, [](const auto &row) { return cast<rt::CollectiveOpInterface>(row.second); }))))
    return failure();
  llvm::sort(summary.sites, [](const auto &a, const auto &b) { return a.site < b.site; });
  std::map<int64_t, int64_t> bucketSizes;
  for (const CollectiveSite &site : summary.sites)
    ++bucketSizes[site.bucket];
  for (CollectiveSite &site : summary.sites)
    site.bucketSize = bucketSizes[site.bucket];
  return success();
}

int64_t shale::kernelWork(rt::KernelOp kernel, function_ref<int64_t(ElementwiseOpInterface)> each) {
  int64_t work = 0;
  kernel.getBody().walk([&](Operation *op) {
    if (auto cost = dyn_cast<CostOpInterface>(op))
      work += cost.getFlops();
    else if (auto elementwise = dyn_cast<ElementwiseOpInterface>(op))
      work +=
          each(elementwise) * cast<RankedTensorType>(op->getResult(0).getType()).getNumElements();
  });
  return work;
}

int64_t shale::kernelFlops(rt::KernelOp kernel) {
  return kernelWork(kernel, [](ElementwiseOpInterface) { return 1; });
}

int64_t shale::callFlops(Operation *op) {
  if (auto cost = dyn_cast<CostOpInterface>(op))
    return cost.getFlops();
  auto launch = dyn_cast<rt::LaunchOp>(op);
  auto kernel = launch
                    ? SymbolTable::lookupNearestSymbolFrom<rt::KernelOp>(op, launch.getKernelAttr())
                    : rt::KernelOp();
  return kernel ? kernelFlops(kernel) : 0;
}

static LogicalResult addWork(ModuleOp module, ProgramSummary &summary) {
  DenseMap<StringAttr, int64_t> flops;
  std::vector<std::pair<int64_t, Operation *>> rows;
  for (auto kernel : module.getOps<rt::KernelOp>()) {
    flops[kernel.getSymNameAttr()] = kernelFlops(kernel);
    ++summary.kernels;
  }
  for (auto function : module.getOps<rt::FuncOp>()) {
    int64_t times = callsPerStep(function);
    function.walk([&](CostOpInterface call) {
      summary.flops += times * call.getFlops();
      (call.isMatmul() ? summary.gemms : summary.attentions) += times;
    });
    if (auto flops = function->getAttrOfType<IntegerAttr>(mem::kRecomputeFlopsAttr))
      summary.recomputedFlops += times * flops.getInt();
    function.walk([&](rt::TransferOp transfer) {
      int64_t bytes = rt::bufferBytes(transfer.getSource().getType());
      rt::BufferOp target = rt::allocationOf(transfer.getTarget());
      rows.push_back({int64_t(transfer.getIndex()), transfer});
      summary.transfers += times;
      summary.transferredBytes += times * bytes;
      summary.copies.push_back({int64_t(transfer.getIndex()), transfer.getName().str(),
                                sourceNode(transfer.getLoc()), bytes, times,
                                target ? target.getMemory() : mem::Memory::Device});
    });
    function.walk([&](rt::LaunchOp launch) {
      summary.flops += times * flops.lookup(launch.getKernelAttr().getAttr());
      summary.launches += times;
    });
  }
  llvm::sort(summary.copies, [](const auto &a, const auto &b) { return a.index < b.index; });
  return verifyRows(std::move(rows), "index");
}

/// Adds the memory besides the state block and the arena.
static LogicalResult addFixedCosts(ModuleOp module, ProgramSummary &summary) {
  auto threads = module->getAttrOfType<IntegerAttr>(rt::kThreadsAttr);
  summary.threads = threads ? threads.getInt() : 1;
  const Target *target = targetOf(module);
  if (!target)
    return failure();
  std::vector<FixedCost> costs;
  if (summary.ranks > 1 || !summary.sites.empty())
    costs.push_back({rt::Category::Communication, "receive scratch", summary.commScratchBytes});
  int64_t constants = 0, inputs = 0;
  for (auto constant : module.getOps<rt::ConstantOp>())
    constants += nn::tensorBytes(cast<RankedTensorType>(constant.getValue().getType()));
  if (auto step = module.lookupSymbol<rt::FuncOp>("step"))
    for (auto input : step.getInputs().getAsRange<DictionaryAttr>())
      inputs += nn::tensorBytes(cast<RankedTensorType>(input.getAs<TypeAttr>("type").getValue()));
  costs.push_back({rt::Category::Fixed, "constants and inputs", constants + inputs});
  llvm::append_range(costs, target->getFixedCosts(module, summary.ranks, summary.threads));
  // Sort by category, like the lines of buffers.
  llvm::stable_sort(costs,
                    [](const FixedCost &a, const FixedCost &b) { return a.category < b.category; });
  for (const FixedCost &cost : costs)
    if (cost.bytes)
      summary.lines.push_back({cost.category, cost.what, cost.bytes});
  return success();
}

/// Returns the elements of a parameter, without padding.
static int64_t parameterElements(nn::StateOp state) {
  RankedTensorType type = state.getTensorType();
  auto part = state->getAttrOfType<nn::PartAttr>(nn::kPartAttr);
  int64_t padding = part && part.getPadding() > 0 ? part.getPadding() : 0;
  return padding ? type.getNumElements() / type.getDimSize(part.getDim()) *
                       (type.getDimSize(part.getDim()) - padding)
                 : type.getNumElements();
}

FailureOr<ProgramSummary> shale::summarizeProgram(ModuleOp module) {
  ProgramSummary summary;
  auto size = [&](StringRef name) -> int64_t {
    auto attr = module->getAttrOfType<IntegerAttr>(name);
    return attr ? attr.getInt() : 0;
  };
  summary.stateBytes.device = size(rt::kStateBytesAttr);
  summary.arenaBytes.device = size(rt::kArenaBytesAttr);
  if (auto count = module->getAttrOfType<IntegerAttr>(nn::kAccumulateAttr))
    summary.microbatches = count.getInt();
  summary.stateBytes.host = size(rt::kHostStateBytesAttr);
  summary.arenaBytes.host = size(rt::kHostArenaBytesAttr);
  if (dist::MeshOp mesh = dist::getMesh(module))
    summary.ranks = mesh.getRankCount();
  for (auto state : module.getOps<nn::StateOp>())
    if (state.getRole() == nn::Role::Param && !state->hasAttr(dist::kUnitAttr)) {
      int64_t count = parameterElements(state);
      summary.parameters += count;
      summary.trained += state.isTrainedParameter() ? count : 0;
    }
  addState(module, summary);
  summary.gatheredAs = gatheredAs(module);
  summary.saveCopyBytes = savedBytes(module, summary.ranks);
  for (mem::Memory memory : mem::kMemories)
    if (failed(addArena(module, summary, memory)))
      return failure();
  if (failed(addSites(module, summary)) || failed(addWork(module, summary)) ||
      failed(addFixedCosts(module, summary)))
    return failure();
  return summary;
}

static std::string mebibytes(int64_t bytes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << llvm::format("%.2f MiB", double(bytes) / (1 << 20));
  return text;
}

void shale::printSummary(const ProgramSummary &summary, raw_ostream &os) {
  os << "parameters    " << summary.parameters << ", " << summary.trained << " trained\n";
  if (summary.microbatches > 1)
    os << "micro-batches " << summary.microbatches << " per step\n";
  os << llvm::format("per step      %.4g flops per rank, ", double(summary.flops))
     << summary.launches << " launches of " << summary.kernels << " kernels, " << summary.gemms
     << " matmuls";
  if (summary.attentions > 0)
    os << ", " << summary.attentions << " calls of attention";
  os << '\n';
  struct Total {
    int64_t count = 0, bytes = 0, rounds = 0, exchanges = 0;
  };
  std::map<std::string, Total> kinds;
  for (const CollectiveSite &site : summary.sites)
    if (site.times > 0) {
      auto &kind = kinds[nameOf(site.kind).str() + " over " + site.axis];
      kind.count += site.times;
      kind.bytes += site.times * site.sentBytes;
      kind.rounds += site.times * site.rounds;
      kind.exchanges += site.bucket == site.site ? site.times : 0;
    }
  os << "collectives   "
     << (kinds.empty() ? "none\n" : "per step, with the bytes sent per rank:\n");
  for (const auto &[kind, total] : kinds) {
    os << llvm::format("  %5lld ", (long long)total.count) << llvm::left_justify(kind, 28)
       << llvm::format("%15lld", (long long)total.bytes);
    if (total.exchanges != total.count)
      os << ", in " << total.exchanges << " exchanges";
    if (total.rounds != total.count)
      os << ", in " << total.rounds << " rounds";
    os << '\n';
  }
  if (summary.unitsAtOnce)
    os << "units         at most " << summary.unitsAtOnce << " whole or in flight at once"
       << (summary.gatheredAs.empty() ? "" : ", gathered as " + summary.gatheredAs) << '\n';
  if (summary.recomputedFlops)
    os << llvm::format("recomputed    %.4g flops per rank of these\n",
                       double(summary.recomputedFlops));
  if (summary.transfers)
    os << "copies        per step, " << summary.transfers
       << " between device and host: " << summary.transferredBytes << " bytes\n";
  for (mem::Memory memory : mem::kMemories) {
    bool host = memory == mem::Memory::Host;
    if (host && !summary.offloads())
      break;
    os << (host                 ? "host memory   of a rank, "
           : summary.offloads() ? "device memory of a rank, "
                                : "memory        of a rank, ")
       << summary.ranks << " rank(s):\n";
    for (const PlanLine &line : summary.lines)
      if (line.memory == memory)
        os << "  " << llvm::left_justify(rt::stringifyCategory(line.category), 14)
           << llvm::format("%15lld  ", (long long)line.bytes) << line.what << "\n";
    os << "  " << llvm::left_justify("peak", 14)
       << llvm::format("%15lld  ", (long long)summary.peakBytes(memory))
       << mebibytes(summary.peakBytes(memory)) << "\n";
  }
  os << "saves         + " << summary.saveCopyBytes
     << " bytes per rank (host) to write them while training goes on\n";
}
