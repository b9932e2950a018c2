//===- Evaluators.h - The ops that are folded -----------------------------===//
//
// An op that has an evaluator is folded if all its operands are constants. A
// family of evaluators is one file with one function that adds them, listed in
// Fold.cpp.
//
// The interpreter (lib/Interpreter) defines the same ops. Neither uses the
// other, so that a test that compares them finds an error in either.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FOLDING_EVALUATORS_H
#define SHALE_FOLDING_EVALUATORS_H

#include "lib/Folding/TypedBuffer.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"
#include <functional>

namespace shale::folding {

/// Evaluators by op. An op is valid, has one result and no region, and its operands have the shapes
/// and element types of its operand types.
class Evaluators {
public:
  /// Returns the op's result, with the shape and element type of its result type. None if the value
  /// is not defined, or if there is not enough memory: the op stays then.
  using Evaluator = std::function<std::optional<TypedBuffer>(mlir::Operation *op,
                                                             llvm::ArrayRef<TypedBuffer> operands)>;

  /// Adds the evaluator of an op: std::optional<TypedBuffer> fn(OpT, ArrayRef<TypedBuffer>).
  template <typename OpT, typename Fn> void add(Fn fn) {
    table[OpT::getOperationName()] = [fn](mlir::Operation *op,
                                          llvm::ArrayRef<TypedBuffer> operands) {
      return fn(mlir::cast<OpT>(op), operands);
    };
  }
  /// Returns the op's evaluator; null if it has none.
  const Evaluator *find(mlir::Operation *op) const {
    auto it = table.find(op->getName().getStringRef());
    return it == table.end() ? nullptr : &it->second;
  }

private:
  llvm::StringMap<Evaluator> table;
};

void addElementwise(Evaluators &evaluators);
void addMovement(Evaluators &evaluators);
void addLookups(Evaluators &evaluators);
void addReductions(Evaluators &evaluators);

/// Returns the type of the only result of an op.
inline mlir::RankedTensorType resultType(mlir::Operation *op) {
  return mlir::cast<mlir::RankedTensorType>(op->getResult(0).getType());
}

/// Allocates the only result of an op, whose type has a kind.
inline std::optional<TypedBuffer> allocateResult(mlir::Operation *op) {
  mlir::RankedTensorType type = resultType(op);
  return TypedBuffer::allocate(*kindOf(type.getElementType()), type.getShape());
}

} // namespace shale::folding

#endif // SHALE_FOLDING_EVALUATORS_H
