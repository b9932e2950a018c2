//===- AnnotateRecompute.cpp - Marks ops to recompute ---------------------===//
#include "dialects/mem/Mem.h"
#include "dialects/nn/Ops/State.h"
#include "lib/Analysis/Blocks.h"
#include "lib/Analysis/Modules.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/memory/Passes.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Regex.h"
#include <cmath>

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_ANNOTATERECOMPUTEPASS
#include "passes/memory/Passes.h.inc"

/// The least floating-point operations per byte moved at which a result is kept.
static constexpr int64_t kIntensity = 2;
/// A result that is this many times smaller than the op's operands is kept.
static constexpr int64_t kCondensation = 8;

namespace {

/// The value of `--recompute` for one model.
struct Choice {
  enum Kind { None, Block, Selective };
  Kind kind = None;
  /// The module scopes whose inner results are not kept; outside of them only
  /// `selective` recomputes.
  std::vector<std::string> scopes;
};

/// Whether recomputing the results costs about as much as reading them. What is sent never does.
bool isCheap(Operation *op) {
  if (isa<CollectiveOpInterface>(op))
    return false;
  int64_t in = nn::tensorBytes(op->getOperandTypes()), out = nn::tensorBytes(op->getResultTypes());
  if (out < in / kCondensation)
    return false;
  auto cost = dyn_cast<CostOpInterface>(op);
  return !cost || cost.getFlops() / kIntensity < in + out;
}

/// Whether an op sums over ranks, or moves slices to other ranks: its results are no larger than
/// its operands, so they are kept. What is gathered is larger, and is gathered again; units are
/// gathered again as the strategy says.
bool exchanges(Operation *op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  return collective && (!gathers(collective.getCollectiveKind()) || isa<dist::UnitGatherOp>(op));
}

/// Whether a later clone computes the same results, and nothing is exchanged for it: the op has no
/// side effects. Views, constants and ops with only scalar results are not candidates.
bool isCandidate(Operation *op) {
  return isForward(op) && isMemoryEffectFree(op) && !exchanges(op) && op->getNumResults() > 0 &&
         op->getNumOperands() > 0 && !isView(op) && !op->hasTrait<OpTrait::ConstantLike>() &&
         llvm::any_of(op->getResultTypes(), [](Type type) {
           auto tensor = dyn_cast<RankedTensorType>(type);
           return tensor && tensor.getRank() > 0;
         });
}

/// Returns the ops whose results, or views of them, the forward pass reads outside of
/// their block. These are kept; otherwise the clones of one block would need clones of
/// the previous block.
DenseSet<Operation *> findEscaping(func::FuncOp function, const Blocks &blocks) {
  DenseSet<Operation *> escaping;
  for (Operation &op : llvm::reverse(function.getBody().front())) {
    if (!isForward(&op))
      continue;
    for (Operation *user : op.getUsers()) {
      if (isBackward(user))
        continue;
      if (!isForward(user) || blocks.of(user) != blocks.of(&op) ||
          (isView(user) && escaping.contains(user)))
        escaping.insert(&op);
    }
  }
  return escaping;
}

/// Keeps, instead of the result of a sum over ranks, the smallest value that replaces it for all
/// its readers: the sum is in f32, and the residual stream that it is added to may be in bf16.
void keepSmallest(Operation *sum) {
  Operation *best = sum;
  for (Operation *op = sum; op->getNumResults() == 1 && op->getResult(0).hasOneUse();) {
    op = *op->getUsers().begin();
    if (!op->hasAttr(mem::kRecomputeAttr) && !isView(op))
      break;
    if (nn::tensorBytes(op->getResultTypes()) < nn::tensorBytes(best->getResultTypes()))
      best = op;
  }
  best->removeAttr(mem::kRecomputeAttr);
}

void annotate(func::FuncOp function, const Choice &choice) {
  Blocks blocks(function, choice.scopes);
  DenseSet<Operation *> escaping = findEscaping(function, blocks);
  for (Operation &op : function.getBody().front()) {
    if (!isCandidate(&op) || escaping.contains(&op))
      continue;
    bool chosen = choice.kind == Choice::Selective ? isCheap(&op) : blocks.of(&op) >= 0;
    if (chosen)
      op.setAttr(mem::kRecomputeAttr, UnitAttr::get(op.getContext()));
  }
  for (Operation &op : function.getBody().front())
    if (isForward(&op) && exchanges(&op) && !isa<dist::UnitGatherOp>(op))
      keepSmallest(&op);
}

/// Returns the scopes whose name `regex` matches; around each parameter only the outermost one.
FailureOr<std::vector<std::string>> matchScopes(ModuleOp module, StringRef regex) {
  llvm::Regex pattern(regex);
  std::string reason;
  if (!pattern.isValid(reason))
    return emitError(module.getLoc(), "--recompute match:")
           << regex << ": not a regular expression: " << reason;
  llvm::SetVector<StringRef> found, all;
  for (auto state : module.getOps<nn::StateOp>())
    all.insert_range(scopesOf(state.getSymName(), false));
  for (auto state : module.getOps<nn::StateOp>())
    for (StringRef scope : scopesOf(state.getSymName(), false))
      if (pattern.match(scope)) {
        found.insert(scope);
        break;
      }
  if (found.empty()) {
    std::string list;
    for (StringRef scope : llvm::ArrayRef(all.getArrayRef()).take_front(8))
      list += (list.empty() ? "" : ", ") + scope.str();
    return emitError(module.getLoc(), "--recompute match:")
           << regex << " matches no module scope; there are " << (list.empty() ? "none" : list)
           << (all.size() > 8 ? ", ..." : "");
  }
  std::vector<std::string> scopes;
  for (StringRef scope : found)
    scopes.push_back(scope.str());
  return scopes;
}

FailureOr<Choice> choose(ModuleOp module, const RecomputePolicy &policy) {
  switch (policy.kind) {
  case RecomputePolicy::None:
    return Choice();
  case RecomputePolicy::Selective:
    return Choice{Choice::Selective, findBlocks(module)};
  case RecomputePolicy::Block: {
    Choice choice{Choice::Block, findBlocks(module)};
    if (choice.scopes.empty())
      return emitError(
          module.getLoc(),
          "--recompute block: the model has no blocks (modules that repeat with an index); "
          "use selective, class:NAME or match:REGEX");
    // When the first blocks are recomputed, the kept results of the last ones are already freed.
    choice.scopes.resize(std::ceil(policy.fraction * choice.scopes.size()));
    return choice;
  }
  case RecomputePolicy::Class:
  case RecomputePolicy::Match: {
    auto scopes = policy.kind == RecomputePolicy::Match
                      ? matchScopes(module, policy.name)
                      : scopesOfClass(module, policy.name, "--recompute");
    if (failed(scopes))
      return failure();
    return Choice{Choice::Block, std::move(*scopes)};
  }
  case RecomputePolicy::Auto:
    return emitError(module.getLoc(), "--recompute auto: shalec's planner chooses the policy; name "
                                      "the policy that this pass applies");
  }
  llvm_unreachable("all kinds are listed");
}

struct AnnotateRecomputePass : impl::AnnotateRecomputePassBase<AnnotateRecomputePass> {
  using AnnotateRecomputePassBase::AnnotateRecomputePassBase;
  void runOnOperation() final {
    ModuleOp module = getOperation();
    FailureOr<Choice> choice = choose(module, recompute);
    if (failed(choice))
      return signalPassFailure();
    if (choice->kind == Choice::None)
      return;
    for (auto function : module.getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock() &&
          llvm::any_of(function.getBody().front(), [](Operation &op) { return isBackward(&op); }))
        annotate(function, *choice);
  }
};

} // namespace

LogicalResult checkRecompute(ModuleOp module, const RecomputePolicy &policy) {
  return choose(module, policy);
}

} // namespace shale
