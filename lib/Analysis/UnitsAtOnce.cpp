//===- UnitsAtOnce.cpp - Units that are whole or in flight ----------------===//
#include "lib/Analysis/UnitsAtOnce.h"
#include "dialects/dist/Dist.h"
#include "lib/Analysis/ProgramLiveness.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace shale;

UnitsAtOnce shale::unitsAt(ArrayRef<WholeUnit> wholes, int64_t position) {
  llvm::SmallSet<StringRef, 8> all, inUse;
  UnitsAtOnce at;
  for (auto [i, whole] : llvm::enumerate(wholes)) {
    if (position < whole.begin || whole.lastRead < position)
      continue;
    all.insert(whole.unit);
    if (whole.firstRead <= position)
      inUse.insert(whole.unit);
    else
      at.ahead = i;
  }
  at.all = all.size();
  at.inUse = inUse.size();
  return at;
}

int64_t shale::mostUnitsAtOnce(ArrayRef<WholeUnit> wholes) {
  int64_t most = 0;
  for (const WholeUnit &whole : wholes) // the maximum is reached where a unit begins
    most = std::max(most, unitsAt(wholes, whole.begin).all);
  return most;
}

/// Whether a buffer receives a copy of a rank's shard of a group.
static bool isCopiedShard(rt::TransferOp copy) {
  rt::BufferOp source = rt::allocationOf(copy.getSource());
  auto module = copy->getParentOfType<ModuleOp>();
  bool isState = source && source.getSpace() == rt::Space::State;
  auto slot = isState ? module.lookupSymbol<rt::SlotOp>(source.getSymbolAttr()) : rt::SlotOp();
  return slot && slot.getAxis() && dist::getAxisSize(module, *slot.getAxis()) > 1;
}

SmallVector<WholeUnit> shale::wholeUnitsOf(rt::FuncOp function, const ProgramLiveness &liveness) {
  DenseSet<Operation *> shards; // before they are gathered
  function.walk([&](Operation *op) {
    auto gather = dyn_cast<rt::CollectiveOpInterface>(op);
    if (gather && rt::allocationOf(gather.getSend()) != rt::allocationOf(gather.getRecv()))
      shards.insert(rt::allocationOf(gather.getSend()));
    if (auto copy = dyn_cast<rt::TransferOp>(op); copy && isCopiedShard(copy))
      shards.insert(rt::allocationOf(copy.getTarget()));
  });
  SmallVector<WholeUnit> wholes;
  for (const LiveBuffer &buffer : liveness.buffers) {
    rt::BufferOp op = buffer.op;
    if (op.getSpace() == rt::Space::Arena && op.getCategory() == rt::Category::Parameters &&
        op.getMemory() == mem::Memory::Device && !shards.contains(op))
      wholes.push_back({op.getName(), buffer.begin, buffer.begin, buffer.end});
  }
  return wholes;
}
