//===- LoopNest.h - Nested loops that ops are inserted into ---------------===//
#ifndef SHALE_CODEGEN_LOOPNEST_H
#define SHALE_CODEGEN_LOOPNEST_H

#include "dialects/interfaces/Interfaces.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <map>
#include <memory>

namespace shale {

/// A nest of scopes, each the body of a loop, and the place of a builder in it. A scope's depth is
/// its number from the outside.
class LoopNest {
public:
  LoopNest(mlir::OpBuilder &builder, mlir::Location loc) : b(builder), loc(loc) {}

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
  using Scopes = std::vector<std::unique_ptr<Scope>>;

  void pushScope(mlir::Block *block, mlir::Operation *before = nullptr);
  void popScope() { scopes.pop_back(); }
  unsigned depth() const { return scopes.size() - 1; }
  Scope &scope() { return *scopes.back(); }
  Scope &scope(unsigned depth) { return *scopes[depth]; }
  /// Removes the scopes that are deeper than `depth`. They return by putBack.
  Scopes takeDeeper(unsigned depth);
  void putBack(Scopes deeper);

  /// Moves the builder to the place where ops of a scope are inserted: of the scope at a depth, or
  /// of the innermost one.
  void setInsertion(unsigned depth);
  void setInsertion() { setInsertion(depth()); }
  /// The depth of the scope that the builder inserts into.
  unsigned insertionDepth() const;

  /// Opens a loop around all ops that are emitted until closeLoop, with `values` as iteration
  /// arguments.
  mlir::scf::ForOp openLoop(mlir::Value lower, mlir::Value upper, int64_t step,
                            mlir::ValueRange values);
  mlir::ValueRange closeLoop(mlir::scf::ForOp loop, mlir::ValueRange values);

  mlir::Value constantIndex(int64_t value);

  mlir::OpBuilder &b;
  mlir::Location loc;

private:
  Scopes scopes;
};

} // namespace shale

#endif // SHALE_CODEGEN_LOOPNEST_H
