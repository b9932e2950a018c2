//===- KernelEmitter.h - Emits elements as scf, vector and arith ----------===//
#ifndef SHALE_TARGET_CPU_KERNELEMITTER_H
#define SHALE_TARGET_CPU_KERNELEMITTER_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <memory>
#include <optional>

namespace shale {

/// The origin of a loop dimension, by which the schedule refines it.
enum class DimOrigin { Flat, Row, Column, Other };

/// A change of the schedule that is required to emit the kernel.
struct Refinement {
  enum Kind {
    Split,  ///< splits a dimension into (size / at, at)
    Break,  ///< splits a dimension into the ranges [0, at) and [at, size)
    Scalar, ///< uses one lane
    Unsupported
  };
  Kind kind;
  DimOrigin origin = DimOrigin::Other;
  unsigned position = 0; ///< index among the dimensions of the same origin
  int64_t at = 0;
};

/// Emits elements into a nest of scopes, each the body of a loop. A value is
/// emitted once, in the outermost scope that defines its dimensions.
class KernelEmitter final : public ElementEmitter {
public:
  KernelEmitter(mlir::OpBuilder &builder, mlir::Location loc, int64_t lanes)
      : b(builder), loc(loc), lanes(lanes) {}

  // ---- interface of the schedule
  struct Scope {
    mlir::Block *block;
    mlir::Operation *before; ///< ops are inserted before it; null: at the end
    std::map<std::pair<void *, LinearIndex>, mlir::Value> memo;
  };
  void pushScope(mlir::Block *block, mlir::Operation *before = nullptr);
  void popScope();
  void setInsertion(unsigned depth);
  unsigned depth() const { return scopes.size() - 1; }
  Scope &scope() { return *scopes.back(); }

  /// A dimension whose value is known in the innermost scope.
  LinearIndex addDim(int64_t size, mlir::Value value, DimOrigin origin, unsigned position,
                     bool isLane = false);
  /// Opens a loop around all ops that are emitted until closeLoop, with `values` as iteration
  /// arguments.
  mlir::scf::ForOp openLoop(mlir::Value lower, mlir::Value upper, int64_t step,
                            mlir::ValueRange values);
  mlir::ValueRange closeLoop(mlir::scf::ForOp loop, mlir::ValueRange values);
  /// Sets the mask of loads and stores along lanes; null for none.
  void setMask(mlir::Value value) { mask = value; }
  mlir::Value currentMask() const { return mask; }
  void endLanes() { laneDim = std::nullopt; }

  void bind(mlir::Value value, mlir::Value memref) { buffers[value] = memref; }
  void store(mlir::Value memref, const LinearIndex &index, mlir::Value element);
  mlir::Value constantIndex(int64_t value);
  mlir::VectorType vectorOf(mlir::Type element) const {
    return mlir::VectorType::get({lanes}, element);
  }
  const std::optional<Refinement> &refinement() const { return request; }
  int64_t laneCount() const { return lanes; }

  // ---- interface of the ops
  mlir::Value emit(mlir::Value value, const LinearIndex &index) override;
  bool divide(const LinearIndex &index, int64_t divisor, LinearIndex &quotient,
              LinearIndex &remainder) override;
  Within within(const LinearIndex &index, int64_t lo, int64_t hi, LinearIndex &relative,
                mlir::Value &condition) override;
  mlir::Value number(const LinearIndex &index, mlir::Type element) override;
  bool runtimeDim(mlir::Value value, int64_t size, LinearIndex &index) override;
  mlir::Value loop(const LinearIndex &at, int64_t size, mlir::Value initial,
                   llvm::function_ref<mlir::Value(const LinearIndex &, mlir::Value)> body) override;
  mlir::Value widen(const LinearIndex &at, mlir::Value value) override;
  mlir::OpBuilder &builder() override { return b; }

private:
  struct Dim {
    int64_t size;
    mlir::Value value;
    unsigned depth;
    DimOrigin origin;
    unsigned position;
  };

  unsigned depthOf(const LinearIndex &index) const;
  std::pair<int64_t, int64_t> rangeOf(const LinearIndex &index) const;
  int64_t laneStep(const LinearIndex &index) const {
    return laneDim ? index.coefficient(*laneDim) : 0;
  }
  /// Emits the index of the first lane as a value of index type.
  mlir::Value materialize(const LinearIndex &index);
  mlir::Value load(mlir::Value memref, mlir::Type element, const LinearIndex &index);
  mlir::Value emitOp(mlir::Operation *op, mlir::Value value, const LinearIndex &index);
  void ask(Refinement refinement) {
    if (!request)
      request = refinement;
  }

  mlir::OpBuilder &b;
  mlir::Location loc;
  int64_t lanes;
  std::optional<unsigned> laneDim;
  mlir::Value mask;
  std::vector<Dim> dims;
  std::vector<std::unique_ptr<Scope>> scopes;
  llvm::DenseMap<mlir::Value, mlir::Value> buffers;
  std::optional<Refinement> request;
};

/// Reduces a vector's elements by combining its halves repeatedly: the order depends only on the
/// vector's width.
mlir::Value foldLanes(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value wide,
                      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

} // namespace shale

#endif // SHALE_TARGET_CPU_KERNELEMITTER_H
