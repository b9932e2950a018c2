//===- NestEmitter.h - Emits elements into nested loops -------------------===//
#ifndef SHALE_CODEGEN_NESTEMITTER_H
#define SHALE_CODEGEN_NESTEMITTER_H

#include "lib/Codegen/IndexEmitter.h"
#include <functional>

namespace shale {

/// Returns the types of a kernel's memory: that of the inputs of `body`, then that of its outputs,
/// each with one dimension.
llvm::SmallVector<mlir::Type> memoryTypes(mlir::Region &body);

/// Emits elements into a nest of scopes, each the body of a loop. A value is emitted once, in the
/// outermost scope that defines its dimensions. Indices are linear in the dimensions; where an op
/// needs finer ones, emission stops with a refinement of the form. A target derives its emitter,
/// which loads and stores elements.
class NestEmitter : public ElementEmitter {
public:
  NestEmitter(mlir::OpBuilder &builder, mlir::Location loc)
      : nest(builder, loc), b(builder), loc(loc), indices(nest) {}

  // ---- interface of the target

  /// The scopes that elements are emitted into.
  LoopNest nest;

  /// A dimension whose value is known in the innermost scope. With a guard, an i1, the value is in
  /// [0, size) only where the guard is true.
  LinearIndex addDim(int64_t size, mlir::Value value, DimOrigin origin, unsigned position,
                     mlir::Value guard = {}) {
    return indices.addDim(size, value, origin, position, guard);
  }
  /// Makes `memref` the memory of an input of the kernel.
  void bind(mlir::Value value, mlir::Value memref) { buffers[value] = memref; }
  /// Sets how elements of some ops are emitted in the place of what the ops say; the function
  /// returns nothing for others.
  using Special = std::function<std::optional<mlir::Value>(mlir::Operation *, const LinearIndex &)>;
  void setSpecial(Special function) { special = std::move(function); }
  /// An element of an output, to be stored.
  struct Output {
    mlir::Value memref;
    LinearIndex index;
    mlir::Value element;
  };
  /// Emits the outputs of `yield` that have `count` elements at `index` and appends them to
  /// `outputs`. Returns false if a refinement is needed.
  bool emitOutputs(mlir::Operation *yield, int64_t count, mlir::ValueRange memrefs,
                   const LinearIndex &index, llvm::SmallVectorImpl<Output> &outputs);
  /// Stores outputs at the builder's insertion point, after all of them are emitted: a result may
  /// share an operand's buffer.
  void storeOutputs(llvm::ArrayRef<Output> outputs);
  /// The refinement that emission stopped with, if any.
  const std::optional<Refinement> &refinement() const { return request; }

  // ---- interface of the ops

  mlir::Value emit(mlir::Value value, const LinearIndex &index) override;
  bool divideBy(const LinearIndex &index, int64_t divisor, LinearIndex &quotient,
                LinearIndex &remainder) override;
  Within within(const LinearIndex &index, int64_t lo, int64_t hi, LinearIndex &relative,
                mlir::Value &condition) override;
  bool runtimeDim(mlir::Value value, int64_t size, LinearIndex &index,
                  mlir::Value &inside) override;
  mlir::Value loop(const LinearIndex &at, int64_t size, mlir::Value initial,
                   llvm::function_ref<mlir::Value(const LinearIndex &, mlir::Value)> body) override;
  mlir::OpBuilder &builder() override { return b; }

protected:
  /// Emits a load of the element at `index`, in the form that ops compute on.
  virtual mlir::Value load(mlir::Value memref, mlir::Type element, const LinearIndex &index) = 0;
  /// Emits a store of an element that ops computed.
  virtual void store(mlir::Value memref, const LinearIndex &index, mlir::Value element) = 0;
  /// Whether the elements at `index` form a vector, so that its parts cannot be tested or divided.
  virtual bool isVector(const LinearIndex &index) const = 0;

  mlir::OpBuilder &b;
  mlir::Location loc;
  /// The dimensions of indices, and what is computed with them.
  IndexEmitter indices;

private:
  mlir::Value emitOp(mlir::Operation *op, const LinearIndex &index);
  void ask(Refinement refinement) {
    if (!request)
      request = refinement;
  }

  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  Special special;
  std::optional<Refinement> request;
};

} // namespace shale

#endif // SHALE_CODEGEN_NESTEMITTER_H
