//===- TransposeForm.cpp - Kernels that transpose matrices ----------------===//
#include "lib/Target/CUDA/TransposeForm.h"
#include "dialects/interfaces/Interfaces.h"
#include "lib/Target/CUDA/ThreadEmitter.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

constexpr int64_t kMostWidth = 8, kSector = 32;

int64_t bytesOf(Value value) {
  return valueBytes(memoryType(getElementTypeOrSelf(value.getType())));
}

class Matcher {
public:
  Matcher(Region &body, int64_t count) : block(body.front()), count(count) {}

  std::optional<TransposeForm> run() {
    if (!findOps() || !propagate())
      return std::nullopt;
    for (nn::TransposeOp op : form.ops)
      if (isTransposed.lookup(op.getInput()) || bytesOf(op.getInput()) != form.bytes)
        return std::nullopt;
    return chooseWidths() ? std::optional(form) : std::nullopt;
  }

private:
  bool isWhole(Value value) const { return nn::elements(value) == count; }

  /// Finds the ops, all of which must have matrices of one size.
  bool findOps() {
    for (auto op : block.getOps<nn::TransposeOp>()) {
      std::optional<MatrixTranspose> sizes = matchTranspose(op);
      if (!sizes || !isWhole(op.getResult()))
        continue;
      if (!form.ops.empty() && !(*sizes == form.sizes))
        return false;
      form.sizes = *sizes;
      form.ops.push_back(op);
    }
    if (form.ops.empty())
      return false;
    form.bytes = bytesOf(form.ops.front().getInput());
    return true;
  }

  /// Notes whether a value has transposed matrices. Returns false if the opposite is known.
  bool note(Value value, bool transposed) {
    auto [known, isNew] = isTransposed.try_emplace(value, transposed);
    if (isNew)
      work.push_back(value);
    return known->second == transposed;
  }

  /// Follows ops that transpose and those that keep the order of elements, from the first op's
  /// operand on.
  bool propagate() {
    bool consistent = note(form.ops.front().getInput(), false);
    while (consistent && !work.empty()) {
      Value value = work.pop_back_val();
      bool transposed = isTransposed.lookup(value);
      auto relate = [&](OpOperand &use, Value other) {
        if (std::optional<bool> changes = changesOrder(use))
          consistent &= note(other, transposed != *changes);
      };
      if (Operation *op = value.getDefiningOp())
        for (OpOperand &use : op->getOpOperands())
          relate(use, use.get());
      for (OpOperand &use : value.getUses())
        if (use.getOwner()->getNumResults() == 1)
          relate(use, use.getOwner()->getResult(0));
    }
    return consistent;
  }

  /// Returns whether an op transposes an operand or keeps the order of its elements; nothing if it
  /// does something else.
  std::optional<bool> changesOrder(OpOperand &use) const {
    Operation *op = use.getOwner();
    if (op->getNumResults() != 1 || !isWhole(op->getResult(0)) || !isWhole(use.get()))
      return std::nullopt;
    if (llvm::any_of(form.ops, [&](nn::TransposeOp known) { return known.getOperation() == op; }))
      return true;
    auto indexed = dyn_cast<IndexedOpInterface>(op);
    bool keeps = indexed ? indexed.getAccess(use.getOperandNumber()) == Access::Same
                         : isa<ElementwiseOpInterface>(op);
    return keeps ? std::optional(false) : std::nullopt;
  }

  bool chooseWidths() {
    SmallVector<Value> buffers(block.getArguments());
    llvm::append_range(buffers, block.getTerminator()->getOperands());
    int64_t widest = 1, narrowest = ThreadEmitter::accessBytes;
    for (Value value : buffers)
      if (isWhole(value) && !isTransposed.lookup(value)) {
        widest = std::max(widest, bytesOf(value));
        narrowest = std::min(narrowest, bytesOf(value));
      }
    for (Value output : block.getTerminator()->getOperands())
      if (isTransposed.lookup(output))
        form.transposed.insert(output);
    auto [outer, rows, columns] = form.sizes;
    form.width = std::min(kMostWidth, ThreadEmitter::accessBytes / widest);
    while (columns % form.width != 0)
      form.width /= 2;
    form.transposedWidth = ThreadEmitter::accessBytes / form.bytes;
    while (rows % form.transposedWidth != 0)
      form.transposedWidth /= 2;
    int64_t padded =
        llvm::alignTo(rows, form.tileRows()) * llvm::alignTo(columns, form.tileColumns());
    return form.transposedWidth >= form.perWord() && form.tileColumns() * narrowest >= kSector &&
           padded <= 2 * rows * columns;
  }

  Block &block;
  int64_t count;
  TransposeForm form;
  DenseMap<Value, bool> isTransposed;
  SmallVector<Value> work;
};

} // namespace

int64_t TransposeForm::blocks() const {
  return sizes.outer * llvm::divideCeil(sizes.rows, tileRows()) *
         llvm::divideCeil(sizes.columns, tileColumns());
}

std::optional<TransposeForm> cuda::matchTransposes(const RowForm &form, Region &body) {
  if (!form.flat || form.loops)
    return std::nullopt;
  return Matcher(body, form.columns).run();
}
