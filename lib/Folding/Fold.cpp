//===- Fold.cpp - Computes an op on constants -----------------------------===//
#include "lib/Folding/Fold.h"
#include "lib/Folding/Evaluators.h"

using namespace mlir;

namespace shale::folding {

/// The most elements of a result. Larger values stay ops.
static constexpr int64_t kMostElements = int64_t(1) << 31;

static const Evaluators &allEvaluators() {
  static const Evaluators all = [] {
    Evaluators result;
    addElementwise(result);
    addMovement(result);
    addLookups(result);
    addReductions(result);
    return result;
  }();
  return all;
}

/// Whether a value of this type can be folded: its number of elements does not overflow.
static bool canFold(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape() || !kindOf(tensor.getElementType()))
    return false;
  int64_t bytes = widthOf(*kindOf(tensor.getElementType()));
  for (int64_t size : tensor.getShape())
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return false;
  return true;
}

static bool hasType(const TypedBuffer &buffer, Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getShape() == buffer.shape() && kindOf(tensor.getElementType()) == buffer.kind();
}

DenseElementsAttr fold(Operation *op, ArrayRef<TypedBuffer> operands) {
  const Evaluators::Evaluator *evaluator = allEvaluators().find(op);
  if (!evaluator || op->getNumResults() != 1 || op->getNumRegions() != 0 ||
      op->getNumOperands() != operands.size())
    return {};
  if (!llvm::all_of(op->getOperandTypes(), canFold) || !canFold(op->getResult(0).getType()))
    return {};
  for (auto [operand, type] : llvm::zip_equal(operands, op->getOperandTypes()))
    if (!hasType(operand, type))
      return {};
  if (resultType(op).getNumElements() > kMostElements)
    return {};
  std::optional<TypedBuffer> result = (*evaluator)(op, operands);
  if (!result)
    return {};
  return result->toAttr(
      RankedTensorType::get(resultType(op).getShape(), resultType(op).getElementType()));
}

DenseElementsAttr fold(Operation *op, ArrayRef<DenseElementsAttr> operands) {
  SmallVector<TypedBuffer> buffers;
  for (DenseElementsAttr operand : operands) {
    std::optional<TypedBuffer> buffer = operand ? TypedBuffer::of(operand) : std::nullopt;
    if (!buffer)
      return {};
    buffers.push_back(std::move(*buffer));
  }
  return fold(op, buffers);
}

} // namespace shale::folding
