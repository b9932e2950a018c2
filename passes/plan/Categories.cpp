//===- Categories.cpp - What allocations are for --------------------------===//
#include "passes/plan/Categories.h"
#include "lib/Analysis/Gathers.h"

using namespace mlir;
using namespace shale;

rt::Category shale::categoryOf(nn::Role role) {
  switch (role) {
  case nn::Role::Param:
  case nn::Role::Divided:
  case nn::Role::Buffer:
  case nn::Role::Running:
    return rt::Category::Parameters;
  case nn::Role::GradAccumulator:
  case nn::Role::Residual:
    return rt::Category::Gradients;
  default:
    return rt::Category::Optimizer;
  }
}

/// Returns the gradient whose words a collective sends, or null if it sends something else.
static const Allocation *quantizedFrom(dist::StartOp start, const Placement &placement) {
  Operation *kernel = quantizesFor(start);
  return kernel ? &placement.allocationOf(kernel->getOperand(0)) : nullptr;
}

/// The words of a gradient are communication, what a kernel makes of those of all ranks is a
/// gradient.
static void nameQuantized(dist::StartOp start, const Allocation &source, Placement &placement) {
  for (Value words : {start.getInput(), start.getWait().getResult()}) {
    Allocation &allocation = placement.allocationOf(words);
    allocation.category = rt::Category::Communication;
    allocation.name = source.name;
  }
  for (Operation *reader : start.getWait()->getUsers()) {
    Allocation &made = placement.allocationOf(reader->getResult(0));
    if (made.space != rt::Space::Arena)
      continue;
    made.category = rt::Category::Gradients;
    made.name = source.name;
    // The result has the padding of a slice, or of all slices.
    if (source.bytes > 0 && made.bytes > 0)
      made.padding = made.bytes < source.bytes ? source.padding / (source.bytes / made.bytes)
                                               : source.padding * (made.bytes / source.bytes);
  }
}

/// Names the allocations of what a collective sends and receives.
static void nameExchanged(dist::StartOp start, Placement &placement) {
  Allocation &send = placement.allocationOf(start.getInput());
  Allocation &recv = placement.allocationOf(start.getWait().getResult());
  CollectiveKind kind = start.getCollective().getCollectiveKind();
  if (scatters(kind)) {
    if (&send != &recv) {
      send.category = rt::Category::Communication;
      recv.category = rt::Category::Gradients;
      recv.name = send.name;
      recv.padding = send.bytes ? send.padding / (send.bytes / recv.bytes) : 0;
    }
  } else if (Value whole = wholeOf(start); gathers(kind) && whole != start.getWait().getResult()) {
    send.category = rt::Category::Communication;
    Allocation &floats = placement.allocationOf(whole);
    recv.category = floats.category = rt::Category::Parameters;
    send.name = floats.name = recv.name;
  } else if (const Allocation *gradient = quantizedFrom(start, placement)) {
    nameQuantized(start, *gradient, placement);
  } else if (gathers(kind) && recv.space == rt::Space::Arena) {
    recv.category = rt::Category::Parameters;
  }
}

/// Names the allocation of a copy, which has the category of its source. Exceptions are shards
/// copied for a gather and state copied for its update, which are communication.
static void nameCopied(mem::StartOp start, Placement &placement) {
  Value result = start.getWait().getResult();
  const Allocation &source = placement.allocationOf(start.getInput());
  Allocation &copy = placement.allocationOf(result);
  if (copy.space != rt::Space::Arena)
    return;
  bool updated = source.space == rt::Space::State && nn::isInPhase(start, nn::Phase::Update);
  // The operand of an all-reduce keeps its category.
  bool sent = llvm::any_of(result.getUsers(), [](Operation *user) {
    auto exchange = dyn_cast<dist::StartOp>(user);
    return exchange && !keepsShape(exchange.getCollective().getCollectiveKind());
  });
  copy.category = sent || updated ? rt::Category::Communication : source.category;
  copy.padding = copy.bytes == source.bytes ? source.padding : 0;
  copy.name = source.name;
}

void shale::nameCategories(func::FuncOp function, Placement &placement) {
  dist::MeshOp mesh = dist::getMesh(function);
  // Collectives over axes that split values exchange activations and their gradients.
  for (auto start : function.front().getOps<dist::StartOp>())
    if (!mesh || mesh.sumsGradients(start.getCollective().getCollectiveAxis()))
      nameExchanged(start, placement);
  for (auto start : function.front().getOps<mem::StartOp>())
    nameCopied(start, placement);
}
