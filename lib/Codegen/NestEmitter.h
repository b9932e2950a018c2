//===- NestEmitter.h - Emits elements into nested loops -------------------===//
#ifndef SHALE_CODEGEN_NESTEMITTER_H
#define SHALE_CODEGEN_NESTEMITTER_H

#include "dialects/interfaces/Interfaces.h"
#include "lib/Codegen/RowForm.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>

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
  NestEmitter(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

  // ---- interface of the target

  struct Scope {
    mlir::Block *block;
    mlir::Operation *before; ///< ops are inserted before it; null: at the end
    /// Elements and divisions emitted so far.
    std::map<std::pair<void *, LinearIndex>, mlir::Value> memo;
    std::map<std::pair<LinearIndex, int64_t>, std::pair<LinearIndex, LinearIndex>> divisions;
    /// Tests whether an index is in [lo, hi): the condition, and the index minus lo where it holds.
    std::map<std::tuple<LinearIndex, int64_t, int64_t>, std::pair<mlir::Value, LinearIndex>> tests;
    /// Dimensions of values that are known at run time, by value and size, and where they hold.
    std::map<std::pair<void *, int64_t>, std::pair<mlir::Value, LinearIndex>> runtimeDims;
  };
  void pushScope(mlir::Block *block, mlir::Operation *before = nullptr);
  void popScope();
  void setInsertion(unsigned depth);
  unsigned depth() const { return scopes.size() - 1; }
  Scope &scope() { return *scopes.back(); }

  /// A dimension whose value is known in the innermost scope. With a guard, an i1, the value is in
  /// [0, size) only where the guard is true.
  LinearIndex addDim(int64_t size, mlir::Value value, DimOrigin origin, unsigned position,
                     mlir::Value guard = {});
  /// Opens a loop around all ops that are emitted until closeLoop, with `values` as iteration
  /// arguments.
  mlir::scf::ForOp openLoop(mlir::Value lower, mlir::Value upper, int64_t step,
                            mlir::ValueRange values);
  mlir::ValueRange closeLoop(mlir::scf::ForOp loop, mlir::ValueRange values);

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
  mlir::Value constantIndex(int64_t value);
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

  /// Appends the guards of an index' dimensions, each once.
  void collectGuards(const LinearIndex &index, llvm::SmallVectorImpl<mlir::Value> &guards) const;
  /// Returns the least and the largest value of an index.
  std::pair<int64_t, int64_t> rangeOf(const LinearIndex &index) const;
  /// Emits an index as a value of index type: of a vector's first element.
  mlir::Value materialize(const LinearIndex &index);

  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  struct Dim {
    int64_t size;
    mlir::Value value;
    unsigned depth;
    DimOrigin origin;
    unsigned position;
    llvm::SmallVector<mlir::Value, 1> guards;
  };

  unsigned depthOf(const LinearIndex &index) const;
  /// The depth of the scope that the builder inserts into.
  unsigned insertionDepth() const;
  mlir::Value emitOp(mlir::Operation *op, const LinearIndex &index);
  /// Adds a dimension for a value of index type that is emitted at a depth.
  LinearIndex addRuntimeDim(mlir::Value value, int64_t size, unsigned depth);
  /// Emits whether an index is in [lo, hi); returns the condition, and the index minus lo where it
  /// holds, else 0.
  std::pair<mlir::Value, LinearIndex> emitTest(const LinearIndex &index, int64_t lo, int64_t hi);
  /// Emits a division; returns quotient and remainder as new dimensions.
  std::pair<LinearIndex, LinearIndex> emitDivision(const LinearIndex &index, int64_t divisor);
  void ask(Refinement refinement) {
    if (!request)
      request = refinement;
  }

  /// Replaces quotient * divisor + remainder of emitted divisions by what was divided, so that
  /// equal indices compare equal.
  LinearIndex simplify(LinearIndex index) const;

  struct Division {
    unsigned quotient, remainder; ///< dimensions
    int64_t divisor;
    LinearIndex divided;
  };

  std::vector<Dim> dims;
  std::vector<Division> divided;
  std::vector<std::unique_ptr<Scope>> scopes;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  Special special;
  std::optional<Refinement> request;
};

} // namespace shale

#endif // SHALE_CODEGEN_NESTEMITTER_H
