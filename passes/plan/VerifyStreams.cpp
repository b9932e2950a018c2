//===- VerifyStreams.cpp - Order of accesses across streams ---------------===//
//
// A stream runs its work in order. Copies to the host and copies to the device have a stream
// each; everything else is on the compute stream, except collectives: a target may run them on
// any streams. Work that is started waits for the compute stream, and the compute stream waits
// for it at `rt.wait`. Between the two, only later copies of its own stream are ordered after it.
//
//===----------------------------------------------------------------------===//
#include "lib/Analysis/BufferSpan.h"
#include "passes/plan/Passes.h"

using namespace mlir;
using namespace shale;

namespace shale {
#define GEN_PASS_DEF_VERIFYSTREAMSPASS
#include "passes/plan/Passes.h.inc"
} // namespace shale

namespace {

enum class Stream { Compute, CopyIn, CopyOut, Collective };

struct Access {
  BufferSpan span;
  bool writes;
};

/// A started op that the compute stream has not waited for.
struct InFlight {
  Operation *op;
  Stream stream;
  SmallVector<Access> accesses;
};

/// Returns the name of a started op in messages: the kind of a collective.
StringRef kindOf(Operation *start) {
  auto collective = dyn_cast<rt::CollectiveOp>(start);
  return collective ? shale::nameOf(collective.getCollectiveKind())
                    : start->getName().getStringRef();
}

Stream streamOf(Operation *op) {
  if (auto transfer = dyn_cast<rt::TransferOp>(op))
    return rt::memoryOf(transfer.getTarget()) == mem::Memory::Host ? Stream::CopyOut
                                                                   : Stream::CopyIn;
  return isa<rt::CollectiveOpInterface>(op) ? Stream::Collective : Stream::Compute;
}

SmallVector<Access> accessesOf(Operation *op) {
  SmallVector<Access> accesses;
  SmallVector<MemoryEffects::EffectInstance> effects;
  if (auto interface = dyn_cast<MemoryEffectOpInterface>(op))
    interface.getEffects(effects);
  for (const MemoryEffects::EffectInstance &effect : effects)
    if (Value buffer = effect.getValue())
      accesses.push_back({spanOf(buffer), isa<MemoryEffects::Write>(effect.getEffect())});
  return accesses;
}

std::string nameOf(const Access &access) {
  rt::BufferOp block = access.span.block;
  return block ? block.getName().str() : "?";
}

/// Checks one function, op by op.
class Order {
public:
  LogicalResult run(rt::FuncOp function);

private:
  LogicalResult checkAccesses(Operation *op, Stream stream, ArrayRef<Access> accesses);
  LogicalResult checkBucket(rt::WaitOp wait, Operation *start);

  SmallVector<InFlight> inFlight;
  DenseMap<Attribute, SmallVector<Operation *>> buckets;
};

} // namespace

/// Fails if `op` accesses bytes that work of another stream writes, or writes bytes that it reads.
LogicalResult Order::checkAccesses(Operation *op, Stream stream, ArrayRef<Access> accesses) {
  for (const InFlight &other : inFlight) {
    if (other.stream == stream && stream != Stream::Collective)
      continue;
    for (const Access &own : accesses)
      for (const Access &theirs : other.accesses) {
        if ((!own.writes && !theirs.writes) || !own.span.overlaps(theirs.span))
          continue;
        InFlightDiagnostic diag = op->emitOpError() << (own.writes ? "writes '" : "reads '")
                                                    << nameOf(own) << "' while another stream "
                                                    << (theirs.writes ? "writes" : "reads")
                                                    << " it: an rt.wait is missing before this op";
        diag.attachNote(other.op->getLoc())
            << "'" << kindOf(other.op) << "' of '" << nameOf(theirs) << "' is in flight";
        return diag;
      }
  }
  return success();
}

/// Fails if a wait is before the start of a collective of the same bucket: buckets are exchanged
/// as a whole, so the wait would never end.
LogicalResult Order::checkBucket(rt::WaitOp wait, Operation *start) {
  auto bucket = start->getAttr(rt::kBucketAttr);
  if (!bucket)
    return success();
  for (Operation *other : buckets[bucket])
    if (wait->isBeforeInBlock(other)) {
      InFlightDiagnostic diag = wait.emitOpError()
                                << "waits for a bucket before all of its collectives are started";
      diag.attachNote(other->getLoc()) << "this one is started later";
      return diag;
    }
  return success();
}

LogicalResult Order::run(rt::FuncOp function) {
  Block &body = function.getBody().front();
  for (Operation &op : body)
    if (Attribute bucket = op.getAttr(rt::kBucketAttr))
      buckets[bucket].push_back(&op);
  for (Operation &op : body) {
    if (auto wait = dyn_cast<rt::WaitOp>(op)) {
      Operation *start = wait.getToken().getDefiningOp();
      if (failed(checkBucket(wait, start)))
        return failure();
      llvm::erase_if(inFlight, [&](const InFlight &other) { return other.op == start; });
      continue;
    }
    Stream stream = streamOf(&op);
    SmallVector<Access> accesses = accessesOf(&op);
    if (failed(checkAccesses(&op, stream, accesses)))
      return failure();
    if (stream != Stream::Compute)
      inFlight.push_back({&op, stream, std::move(accesses)});
  }
  if (inFlight.empty())
    return success();
  return inFlight.front().op->emitOpError(
      "is in flight when the function returns: an rt.wait is missing");
}

namespace {
struct VerifyStreamsPass : public shale::impl::VerifyStreamsPassBase<VerifyStreamsPass> {
  using Base::Base;
  void runOnOperation() override {
    for (auto function : getOperation().getOps<rt::FuncOp>())
      if (failed(Order().run(function)))
        return signalPassFailure();
  }
};
} // namespace
