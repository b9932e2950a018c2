//===- Timeline.cpp - Memory contents over time ---------------------------===//
#include "lib/Analysis/Timeline.h"
#include "lib/Analysis/Arena.h"
#include "lib/Analysis/ProgramLiveness.h"
#include "mlir/IR/Location.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;

std::string shale::sourceNode(Location loc) {
  std::string name;
  loc->walk([&](Location part) {
    auto named = dyn_cast<NameLoc>(part);
    if (!named)
      return WalkResult::advance();
    name = named.getName().str();
    return WalkResult::interrupt();
  });
  return name;
}

std::string shale::sourcePlace(Location loc) {
  auto node = loc->findInstanceOf<NameLoc>();
  if (!node)
    return "";
  std::string place;
  Location below = node.getChildLoc();
  if (auto module = dyn_cast<NameLoc>(below)) {
    place = ("module '" + module.getName().getValue() + "'").str();
    below = module.getChildLoc();
  }
  auto line = dyn_cast<FileLineColLoc>(below);
  if (line && line.getLine() > 0) // locations in the model's own file have line 0
    place +=
        ((place.empty() ? "" : ", ") + line.getFilename().getValue() + ":" + Twine(line.getLine()))
            .str();
  return place;
}

FailureOr<Timeline> shale::timelineOf(rt::FuncOp function) {
  ProgramLiveness liveness;
  if (failed(liveness.run(function)))
    return failure();
  Timeline timeline;
  timeline.function = function.getSymName().str();
  for (Operation &op : function.getBody().front())
    timeline.ops.push_back(&op);
  mem::PerMemory<SmallVector<Lifetime>> lifetimes;
  for (LiveBuffer &buffer : liveness.buffers) {
    rt::BufferOp op = buffer.op;
    if (op.getSpace() != rt::Space::Arena)
      continue;
    LiveTensor tensor;
    tensor.name = op.getName().str();
    tensor.source = sourceNode(op.getLoc());
    tensor.category = op.getCategory();
    tensor.space = op.getSpace();
    tensor.bytes = buffer.bytes;
    tensor.offset = op.getOffset();
    tensor.begin = buffer.begin;
    tensor.end = buffer.end;
    tensor.memory = op.getMemory();
    tensor.buffer = op;
    tensor.maker = timeline.ops[buffer.begin];
    tensor.lastReader = timeline.ops[buffer.end];
    lifetimes[tensor.memory].push_back({buffer.bytes, buffer.begin, buffer.end});
    timeline.tensors.push_back(std::move(tensor));
  }
  for (mem::Memory memory : mem::kMemories)
    timeline.peakBytes[memory] =
        maxLiveBytes(lifetimes[memory], rt::kAlignment, &timeline.peak[memory]);
  auto module = function->getParentOfType<ModuleOp>();
  for (auto slot : module.getOps<rt::SlotOp>()) {
    LiveTensor tensor{};
    tensor.name = rt::stateNameOf(slot.getSymName()).str();
    tensor.category = slot.getCategory();
    tensor.space = rt::Space::State;
    tensor.bytes = nn::tensorBytes(cast<RankedTensorType>(slot.getType()));
    tensor.offset = slot.getOffset();
    tensor.end = timeline.ops.size();
    tensor.memory = slot.getMemory();
    timeline.state.push_back(std::move(tensor));
  }
  return timeline;
}

std::vector<const LiveTensor *> Timeline::liveAt(int64_t position, mem::Memory memory) const {
  std::vector<const LiveTensor *> live;
  for (const LiveTensor &tensor : tensors)
    if (tensor.memory == memory && tensor.begin <= position && position <= tensor.end)
      live.push_back(&tensor);
  llvm::stable_sort(live,
                    [](const LiveTensor *a, const LiveTensor *b) { return a->bytes > b->bytes; });
  return live;
}

FailureOr<Timeline> shale::largestTimeline(ModuleOp module, mem::Memory memory) {
  Timeline largest;
  largest.peakBytes[memory] = -1;
  for (auto function : module.getOps<rt::FuncOp>()) {
    FailureOr<Timeline> timeline = timelineOf(function);
    if (failed(timeline))
      return failure();
    if (timeline->peakBytes[memory] > largest.peakBytes[memory])
      largest = std::move(*timeline);
  }
  return largest;
}
