//===- AnnotateOffload.cpp - Marks what is kept in host memory ------------===//
#include "dialects/dist/Dist.h"
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Blocks.h"
#include "passes/memory/Passes.h"
#include "passes/memory/Spaces.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATEOFFLOADPASS
#include "passes/memory/Passes.h.inc"

namespace {

/// The least floating-point operations per byte at which an op can hide a copy.
constexpr int64_t kIntensity = 2;

template <typename T> struct Candidate {
  T what;
  int64_t bytes = 0;
};

/// Calls `take` on candidates, the largest first, until the ones taken have
/// `fraction` of all bytes.
template <typename T>
void takeLargest(SmallVector<Candidate<T>> candidates, double fraction,
                 function_ref<void(T)> take) {
  llvm::stable_sort(candidates, [](const auto &a, const auto &b) { return a.bytes > b.bytes; });
  double total = 0, taken = 0;
  for (const auto &candidate : candidates)
    total += candidate.bytes;
  for (const auto &candidate : candidates) {
    if (taken >= fraction * total)
      return;
    taken += candidate.bytes;
    take(candidate.what);
  }
}

const nn::Role kParameters[] = {nn::Role::Param, nn::Role::Buffer};
const nn::Role kMoments[] = {nn::Role::Moment};
const nn::Role kAccumulators[] = {nn::Role::GradAccumulator};

/// Moves the states of one parameter to the host together: its update runs in one memory,
/// and states in the other memory are copied there and back.
void annotateStates(ModuleOp module, ArrayRef<nn::Role> roles, double fraction) {
  llvm::SetVector<StringAttr> used;
  llvm::MapVector<StringAttr, Candidate<SmallVector<nn::StateOp>>> together;
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments())
      if (auto symbol =
              function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr))
        if (used.insert(symbol.getAttr()))
          if (auto state = module.lookupSymbol<nn::StateOp>(symbol))
            if (state->hasAttr(dist::kUnitAttr) && llvm::is_contained(roles, state.getRole())) {
              auto &candidate =
                  together[(state.getOfAttr() ? state.getOfAttr() : symbol).getAttr()];
              candidate.what.push_back(state);
              candidate.bytes += nn::tensorBytes(argument);
            }
  SmallVector<Candidate<SmallVector<nn::StateOp>>> candidates(llvm::make_second_range(together));
  takeLargest<SmallVector<nn::StateOp>>(candidates, fraction, [](ArrayRef<nn::StateOp> states) {
    for (nn::StateOp state : states)
      mem::setHome(state, mem::Memory::Host);
  });
}

void mark(Operation *op) { op->setAttr(mem::kOffloadAttr, UnitAttr::get(op->getContext())); }

/// Marks the ops that define reduced gradients, which updates read directly or through views.
void annotateGradients(func::FuncOp function, double fraction) {
  llvm::SetVector<Operation *> ops;
  for (Operation &op : function.getBody().front())
    if (auto update = dyn_cast<OptimizerUpdateOpInterface>(op))
      if (Operation *source = viewedValue(update.getGradientOperand().get()).getDefiningOp())
        ops.insert(source);
  SmallVector<Candidate<Operation *>> candidates;
  for (Operation *op : ops)
    if (op->getNumResults() == 1)
      candidates.push_back({op, nn::tensorBytes(op->getResult(0))});
  takeLargest<Operation *>(candidates, fraction, [](Operation *op) {
    if (!runsOnHost(op)) // a sum of micro-batches is on the host already
      mark(op);
  });
}

/// Sets `later` to the first position after the forward pass at which the value or a
/// view of it is read, -1 if there is none, and `forward` to the last such position
/// in the forward pass.
void findReads(Value value, const DenseMap<Operation *, int64_t> &positions, int64_t &forward,
               int64_t &later) {
  for (Operation *user : value.getUsers()) {
    int64_t at = positions.lookup(user);
    if (isForward(user)) {
      forward = std::max(forward, at);
      if (isView(user))
        for (Value result : user->getResults())
          findReads(result, positions, forward, later);
    } else if (!user->hasTrait<OpTrait::IsTerminator>()) {
      later = later < 0 ? at : std::min(later, at);
    }
  }
}

/// Marks ops whose results the forward pass keeps for the backward pass, if there is
/// enough work in between to hide the copies.
void annotateActivations(func::FuncOp function, double fraction) {
  DenseMap<Operation *, int64_t> positions;
  SmallVector<int64_t> heavy; // number of costly ops up to a position
  for (Operation &op : function.getBody().front()) {
    positions[&op] = heavy.size();
    int64_t moved = 0;
    for (Type type : llvm::concat<const Type>(op.getOperandTypes(), op.getResultTypes()))
      if (auto tensor = dyn_cast<RankedTensorType>(type))
        moved += nn::tensorBytes(tensor);
    auto cost = dyn_cast<CostOpInterface>(op);
    heavy.push_back((heavy.empty() ? 0 : heavy.back()) +
                    (cost && cost.getFlops() / kIntensity >= moved));
  }
  SmallVector<Candidate<Operation *>> candidates;
  for (Operation &op : function.getBody().front()) {
    if (!isForward(&op) || isView(&op) || isa<CollectiveOpInterface>(op) ||
        op.hasTrait<OpTrait::ConstantLike>() || op.hasAttr(mem::kRecomputeAttr))
      continue;
    int64_t bytes = 0;
    for (Value result : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      int64_t forward = positions[&op], later = -1;
      findReads(result, positions, forward, later);
      if (type && type.getRank() > 0 && later >= 0 && heavy[later] > heavy[forward] + 1)
        bytes += nn::tensorBytes(type);
    }
    if (bytes > 0)
      candidates.push_back({&op, bytes});
  }
  takeLargest<Operation *>(candidates, fraction, mark);
}

struct AnnotateOffloadPass : impl::AnnotateOffloadPassBase<AnnotateOffloadPass> {
  using AnnotateOffloadPassBase::AnnotateOffloadPassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    annotateStates(module, kParameters, offload.params);
    annotateStates(module, kMoments, offload.optimizer);
    annotateStates(module, kAccumulators, offload.grads);
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock()) {
        annotateGradients(function, offload.grads);
        annotateActivations(function, offload.activations);
      }
  }
};

} // namespace

} // namespace shale
