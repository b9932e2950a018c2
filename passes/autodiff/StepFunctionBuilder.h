//===- StepFunctionBuilder.h - Builds a function of a training step -------===//
#ifndef SHALE_PASSES_AUTODIFF_STEPFUNCTIONBUILDER_H
#define SHALE_PASSES_AUTODIFF_STEPFUNCTIONBUILDER_H

#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace shale {

/// A trained parameter while the step is built.
struct Trained {
  nn::StateOp state;
  mlir::Value value; ///< argument of @step
  mlir::Value gradient;
};

/// While it lives, ops that the builder inserts without a phase get this one.
class PhaseScope : mlir::OpBuilder::Listener {
public:
  PhaseScope(mlir::OpBuilder &builder, nn::Phase phase)
      : builder(builder), outer(builder.getListener()),
        phase(nn::PhaseAttr::get(builder.getContext(), phase)) {
    builder.setListener(this);
  }
  ~PhaseScope() override { builder.setListener(outer); }
  PhaseScope(const PhaseScope &) = delete;
  PhaseScope &operator=(const PhaseScope &) = delete;

private:
  void notifyOperationInserted(mlir::Operation *op, mlir::OpBuilder::InsertPoint) override {
    if (!op->hasAttr(nn::kPhaseAttr))
      op->setAttr(nn::kPhaseAttr, phase);
  }

  mlir::OpBuilder &builder;
  mlir::OpBuilder::Listener *outer;
  nn::PhaseAttr phase;
};

/// The results of a function, and the attributes of each.
struct StepResults {
  llvm::SmallVector<mlir::Value> values;
  llvm::SmallVector<mlir::DictionaryAttr> attrs;

  void add(mlir::Value value, mlir::DictionaryAttr attr) {
    values.push_back(value);
    attrs.push_back(attr);
  }
};

/// A builder of a function of one block, with its arguments, its results and f32 scalars.
class StepFunctionBuilder : public mlir::OpBuilder {
public:
  explicit StepFunctionBuilder(mlir::func::FuncOp function)
      : OpBuilder(function.getContext()), function(function) {}

  mlir::func::FuncOp getFunction() { return function; }
  mlir::Location getLoc() { return function.getLoc(); }
  mlir::ModuleOp getModule() { return function->getParentOfType<mlir::ModuleOp>(); }
  mlir::Block &getBody() { return function.getBody().front(); }
  mlir::Operation *getReturn() { return getBody().getTerminator(); }

  mlir::Value addArgument(mlir::Type type, mlir::DictionaryAttr attrs, mlir::Location loc);
  /// Sets what the function returns and what each result is.
  void setResults(const StepResults &results);
  mlir::DictionaryAttr metric(llvm::StringRef name) { return roleAndName(nn::Role::Metric, name); }
  mlir::DictionaryAttr roleAndName(nn::Role role, llvm::StringRef name);
  mlir::DictionaryAttr stateAttr(nn::StateOp state);

  mlir::RankedTensorType scalarType() { return mlir::RankedTensorType::get({}, getF32Type()); }
  mlir::Value constant(double value);
  /// Converts a float tensor to f32.
  mlir::Value toF32(mlir::Value value);
  template <typename Op> mlir::Value binary(mlir::Value a, mlir::Value b) {
    return Op::create(*this, getLoc(), a.getType(), a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value compare(nn::Predicate predicate, mlir::Value a, mlir::Value b);

private:
  mlir::func::FuncOp function;
};

} // namespace shale

#endif // SHALE_PASSES_AUTODIFF_STEPFUNCTIONBUILDER_H
