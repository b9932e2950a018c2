//===- KernelEmitter.h - Elements as scf, vector and arith -----------------===//
#ifndef SHALE_TARGET_CPU_KERNELEMITTER_H
#define SHALE_TARGET_CPU_KERNELEMITTER_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <memory>
#include <optional>

namespace shale {

/// Where a loop dimension comes from, so that the schedule can refine it.
enum class DimOrigin { Flat, Row, Column, Other };

/// What the schedule must change before the kernel can be emitted.
struct Refinement {
  enum Kind {
    Split,  ///< dimension into (size / at, at)
    Break,  ///< dimension into [0, at) and [at, size)
    Scalar, ///< one lane
    Unsupported
  };
  Kind kind;
  DimOrigin origin = DimOrigin::Other;
  unsigned position = 0; ///< among the dimensions of its origin
  int64_t at = 0;
};

/// Emits elements into a nest of scopes, each the body of a loop. A value goes
/// to the outermost scope that has its dimensions, once.
class KernelEmitter final : public ElementEmitter {
public:
  KernelEmitter(mlir::OpBuilder &builder, mlir::Location loc, int64_t lanes)
      : b(builder), loc(loc), lanes(lanes) {}

  // ---- the schedule's side
  struct Scope {
    mlir::Block *block;
    mlir::Operation *before; ///< emission goes in front of it; null: to the end
    std::map<std::pair<void *, LinearIndex>, mlir::Value> memo;
  };
  void pushScope(mlir::Block *block, mlir::Operation *before = nullptr);
  void popScope();
  void setInsertion(unsigned depth);
  unsigned depth() const { return scopes.size() - 1; }
  Scope &scope() { return *scopes.back(); }

  /// A dimension whose value is known in the innermost scope.
  LinearIndex addDim(int64_t size, mlir::Value value, DimOrigin origin, unsigned position, bool isLane = false);
  /// Opens a loop around what is emitted until closeLoop; carries `values`.
  mlir::scf::ForOp openLoop(mlir::Value lower, mlir::Value upper, int64_t step, mlir::ValueRange values);
  mlir::ValueRange closeLoop(mlir::scf::ForOp loop, mlir::ValueRange values);
  /// While set, loads along lanes read only where it holds.
  void setMask(mlir::Value value) { mask = value; }
  mlir::Value currentMask() const { return mask; }
  void endLanes() { laneDim = std::nullopt; }

  void bind(mlir::Value value, mlir::Value memref) { buffers[value] = memref; }
  void store(mlir::Value memref, const LinearIndex &index, mlir::Value element);
  mlir::Value constantIndex(int64_t value);
  mlir::VectorType vectorOf(mlir::Type element) const { return mlir::VectorType::get({lanes}, element); }
  const std::optional<Refinement> &refinement() const { return request; }
  int64_t laneCount() const { return lanes; }

  // ---- the ops' side
  mlir::Value emit(mlir::Value value, const LinearIndex &index) override;
  bool divide(const LinearIndex &index, int64_t divisor, LinearIndex &quotient, LinearIndex &remainder) override;
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
  int64_t laneStep(const LinearIndex &index) const { return laneDim ? index.coefficient(*laneDim) : 0; }
  /// The index without its lanes, as a value of index type.
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

/// A vector's elements reduced by halves: a tree that only its width fixes.
mlir::Value foldLanes(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value wide,
                      llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

} // namespace shale

#endif // SHALE_TARGET_CPU_KERNELEMITTER_H
