//===- Numerics.cpp - In which types each parameter is trained ------------===//
#include "lib/Analysis/Numerics.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Format.h"
#include <map>

using namespace mlir;

namespace shale {

namespace {

Type floatOf(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && isa<FloatType>(tensor.getElementType()) ? tensor.getElementType() : Type();
}

/// Texts in the order in which they came, each with how often it did.
class Lines {
public:
  void add(const std::string &text) { ++counts[text]; }
  void print(raw_ostream &os, StringRef title) const {
    for (auto &[text, count] : counts) {
      os << "  " << llvm::left_justify(title, 12) << text;
      if (count > 1)
        os << " (" << count << " times)";
      os << "\n";
    }
  }

private:
  llvm::MapVector<std::string, int64_t, std::map<std::string, unsigned>> counts;
};

template <typename Types> std::string join(const Types &types) {
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::interleaveComma(types, os);
  return text;
}

/// What one gradient goes through, from the loss to the update.
struct GradientPath {
  Lines sums, later;
  llvm::SmallSetVector<Type, 4> before;

  /// From the update back to the ops that sum the gradient up, then to the loss.
  void follow(Value gradient) {
    SmallVector<Value> work{gradient}, sources;
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *op = value.getDefiningOp();
      auto precision = dyn_cast_or_null<Precision>(op);
      if (!seen.insert(value).second || !precision)
        continue;
      if (auto cast = dyn_cast<nn::CastOp>(op)) {
        later.add("rounded from " + join(SmallVector<Type>{floatOf(cast.getInput())}) + " to " +
                  join(SmallVector<Type>{floatOf(value)}));
        work.push_back(cast.getInput());
        continue;
      }
      Numeric numeric = precision.getResultNumeric(cast<OpResult>(value).getResultNumber());
      if (numeric == Numeric::Accumulates || numeric == Numeric::Full) {
        addSum(op, value);
        llvm::append_range(sources, op->getOperands());
        continue;
      }
      if (isa<Elementwise>(op))
        later.add(op->getName().getStringRef().str() + " in " + join(SmallVector<Type>{floatOf(value)}));
      llvm::append_range(work, op->getOperands());
    }
    followToLoss(sources);
  }

private:
  void addSum(Operation *op, Value value) {
    SmallVector<Type> types;
    for (Value operand : op->getOperands())
      if (Type type = floatOf(operand))
        types.push_back(type);
    Type sum = types.empty() ? floatOf(value) : accumulatorType(types.front());
    sums.add(op->getName().getStringRef().str() + " of " + join(types) + ", accumulated in " +
             join(SmallVector<Type>{sum}) + ", gives " + join(SmallVector<Type>{floatOf(value)}));
  }

  /// Types of what the backward pass computes before.
  void followToLoss(SmallVector<Value> work) {
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *op = value.getDefiningOp();
      auto phase = op ? op->getAttrOfType<nn::PhaseAttr>(nn::kPhaseAttr) : nn::PhaseAttr();
      if (!phase || phase.getValue() != nn::Phase::Backward || !seen.insert(value).second)
        continue;
      if (Type type = floatOf(value))
        before.insert(type);
      llvm::append_range(work, op->getOperands());
    }
  }
};

/// The types in which a parameter is read, but for its update.
std::string usedIn(Value parameter) {
  llvm::SmallSetVector<Type, 2> types;
  for (OpOperand &use : parameter.getUses()) {
    auto update = dyn_cast<OptimizerUpdate>(use.getOwner());
    if (update && &update.getParameterOperand() == &use)
      continue;
    auto cast = dyn_cast<nn::CastOp>(use.getOwner());
    types.insert(cast ? floatOf(cast.getResult()) : floatOf(parameter));
  }
  return join(types);
}

} // namespace

void reportNumerics(ModuleOp module, llvm::raw_ostream &os) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  if (!step)
    return;
  os << "numerics      of each trained parameter\n";
  for (auto update : step.getOps<OptimizerUpdate>()) {
    Value parameter = update.getParameterOperand().get();
    auto argument = dyn_cast<BlockArgument>(parameter);
    auto symbol = argument ? step.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr)
                           : FlatSymbolRefAttr();
    os << (symbol ? symbol.getValue() : StringRef("a parameter")) << "\n";
    auto line = [&](StringRef title, const Twine &text) {
      os << "  " << llvm::left_justify(title, 12) << text << "\n";
    };
    Value gradient = update.getGradientOperand().get();
    GradientPath path;
    path.follow(gradient);
    std::string kept = join(SmallVector<Type>{floatOf(parameter)});
    line("kept", Twine(kept) + ", used in " + usedIn(parameter));
    if (!path.before.empty())
      line("backward", "computed in " + join(path.before));
    path.sums.print(os, "gradient");
    path.later.print(os, "then");
    Type reduced = floatOf(gradient);
    line("reduced", join(SmallVector<Type>{reduced}) + " over ranks, each sum in " +
                        join(SmallVector<Type>{accumulatorType(reduced)}) + " in rank order");
    SmallVector<Type> states;
    for (OpOperand *state : update.getStateOperands())
      states.push_back(floatOf(state->get()));
    line("update", "computed in f32; state in " + join(states));
  }
}

} // namespace shale
