//===- StoredCasts.cpp - Casts that dedicated kernels store ---------------===//
#include "lib/Analysis/Aliases.h"
#include "lib/Codegen/OwnKernelForm.h"
#include "passes/codegen/Kernel.h"
#include "passes/fusion/Groups.h"

using namespace mlir;
using namespace shale;

/// Replaces an op and casts of its results by a cluster, whose results take the places of operands
/// as those of the op do.
static void join(Operation *op, ArrayRef<Operation *> casts) {
  nn::ClusterOp cluster = isolate(op, casts);
  cluster->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  for (Operation &inner : cluster.getBody().front().without_terminator())
    inner.setDiscardableAttrs(DictionaryAttr::get(op->getContext()));
  SmallVector<int64_t> aliases(cluster->getNumResults(), -1);
  for (unsigned i = 0; i < op->getNumResults(); ++i)
    if (OpOperand *operand = aliasedOperand(op, i))
      aliases[i] = operand->getOperandNumber();
  cluster.setAliases(aliases);
  auto made = cluster->getResults().drop_front(op->getNumResults());
  for (auto [cast, result] : llvm::zip_equal(casts, made)) {
    cast->getResult(0).replaceAllUsesWith(result);
    cast->erase();
  }
  op->replaceAllUsesWith(cluster->getResults().take_front(op->getNumResults()));
  op->erase();
}

void shale::joinStoredCasts(Block &block, const Target &target) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block))) {
    if (!target.hasOwnKernel(&op) || !target.storesCasts(&op))
      continue;
    llvm::SetVector<Operation *> casts;
    for (Operation *user : op.getUsers())
      if (user->getBlock() == &block && isStoredCast(user))
        casts.insert(user);
    // In their order, so that equal kernels are equal.
    SmallVector<Operation *> ordered = casts.takeVector();
    llvm::sort(ordered, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    if (!ordered.empty())
      join(&op, ordered);
  }
}
