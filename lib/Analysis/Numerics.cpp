//===- Numerics.cpp - In which types each parameter is trained ------------===//
#include "lib/Analysis/Numerics.h"
#include "dialects/dist/Dist.h"
#include "dialects/nn/NN.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace mlir;

namespace shale {

namespace {

Type floatOf(Value value) {
  auto tensor = dyn_cast<RankedTensorType>(value.getType());
  return tensor && isa<FloatType>(tensor.getElementType()) ? tensor.getElementType() : Type();
}

std::string nameOf(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

/// Names of types in the order in which they came.
class Types {
public:
  void add(Type type) {
    if (type)
      names.push_back(nameOf(type));
  }
  void addOnce(Type type) {
    if (type && !llvm::is_contained(names, nameOf(type)))
      add(type);
  }
  bool empty() const { return names.empty(); }
  std::string text() const { return llvm::join(names, ", "); }
  llvm::json::Array json() const { return llvm::json::Array(names); }

private:
  std::vector<std::string> names;
};

/// Something that happens to a gradient, and how often.
struct Event {
  std::string text;
  llvm::json::Object json;
  int64_t times = 1;
};

class Events {
public:
  void add(const std::string &text, llvm::json::Object json) {
    for (Event &event : events)
      if (event.text == text) {
        ++event.times;
        return;
      }
    events.push_back({text, std::move(json)});
  }
  /// What another function does to the same gradient, where this one does not.
  void merge(Events other) {
    for (Event &event : other.events)
      if (llvm::none_of(events, [&](const Event &own) { return own.text == event.text; }))
        events.push_back(std::move(event));
  }
  void print(raw_ostream &os, StringRef title) const {
    for (const Event &event : events) {
      os << "  " << llvm::left_justify(title, 12) << event.text;
      if (event.times > 1)
        os << " (" << event.times << " times)";
      os << "\n";
    }
  }
  llvm::json::Array json() const {
    llvm::json::Array array;
    for (const Event &event : events) {
      llvm::json::Object object = event.json;
      object["times"] = event.times;
      array.push_back(std::move(object));
    }
    return array;
  }

private:
  std::vector<Event> events;
};

/// What one gradient goes through in one function, from the loss on.
struct GradientPath {
  Events sums, accumulated, later;
  Types before;
  /// Accumulators that bring what other functions computed.
  SmallVector<FlatSymbolRefAttr> accumulators;

  /// From where the gradient ends back to the ops that sum it up, then to the loss.
  void follow(Value gradient) {
    SmallVector<Value> work{gradient}, sources;
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *op = value.getDefiningOp();
      auto precision = dyn_cast_or_null<Precision>(op);
      if (!seen.insert(value).second || !precision)
        continue;
      if (auto accumulate = dyn_cast<nn::AccumulateOp>(op)) {
        addAccumulation(accumulate);
        work.push_back(accumulate.getGradient());
        continue;
      }
      if (auto cast = dyn_cast<nn::CastOp>(op)) {
        std::string from = nameOf(floatOf(cast.getInput())), to = nameOf(floatOf(value));
        later.add("rounded from " + from + " to " + to, llvm::json::Object{{"op", "nn.cast"}, {"from", from}, {"to", to}});
        work.push_back(cast.getInput());
        continue;
      }
      Numeric numeric = precision.getResultNumeric(cast<OpResult>(value).getResultNumber());
      if (numeric == Numeric::Accumulates || numeric == Numeric::Full) {
        addSum(op, value);
        llvm::append_range(sources, op->getOperands());
        continue;
      }
      if (isa<Elementwise>(op)) {
        std::string name = op->getName().getStringRef().str(), type = nameOf(floatOf(value));
        later.add(name + " in " + type, llvm::json::Object{{"op", name}, {"type", type}});
      }
      llvm::append_range(work, op->getOperands());
    }
    followToLoss(sources);
  }

private:
  void addSum(Operation *op, Value value) {
    Types types;
    Type first;
    for (Value operand : op->getOperands())
      if (Type type = floatOf(operand)) {
        first = first ? first : type;
        types.add(type);
      }
    std::string name = op->getName().getStringRef().str(), gives = nameOf(floatOf(value));
    std::string sum = nameOf(first ? accumulatorType(first) : floatOf(value));
    sums.add(name + " of " + types.text() + ", accumulated in " + sum + ", gives " + gives,
             llvm::json::Object{{"op", name}, {"operands", types.json()}, {"accumulated", sum}, {"result", gives}});
  }

  void addAccumulation(nn::AccumulateOp op) {
    auto into = dyn_cast_or_null<BlockArgument>(op.getInto());
    if (!into)
      return; // begins the sum
    std::string type = nameOf(floatOf(op.getGradient())), sum = nameOf(accumulatorType(floatOf(op.getGradient())));
    std::string kept = nameOf(floatOf(into));
    accumulated.add(type + " of each micro-batch, added in " + sum + ", kept in " + kept,
                    llvm::json::Object{{"type", type}, {"added", sum}, {"kept", kept}});
    auto function = cast<func::FuncOp>(into.getOwner()->getParentOp());
    if (auto state = function.getArgAttrOfType<FlatSymbolRefAttr>(into.getArgNumber(), nn::kStateAttr))
      accumulators.push_back(state);
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
        before.addOnce(type);
      llvm::append_range(work, op->getOperands());
    }
  }
};

/// The path to an update, and through its accumulator what the functions of earlier
/// micro-batches do.
GradientPath followGradient(ModuleOp module, func::FuncOp step, Value gradient) {
  GradientPath path;
  path.follow(gradient);
  for (FlatSymbolRefAttr accumulator : path.accumulators)
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function == step || function.isExternal())
        continue;
      Operation *terminator = function.getBody().front().getTerminator();
      for (OpOperand &result : terminator->getOpOperands())
        if (function.getResultAttrOfType<FlatSymbolRefAttr>(result.getOperandNumber(), nn::kStateAttr) == accumulator) {
          GradientPath earlier;
          earlier.follow(result.get());
          path.sums.merge(std::move(earlier.sums));
          path.accumulated.merge(std::move(earlier.accumulated));
          path.later.merge(std::move(earlier.later));
        }
    }
  return path;
}

/// The types in which a parameter is read, but for its update.
Types usedIn(Value parameter) {
  Types types;
  for (OpOperand &use : parameter.getUses()) {
    auto update = dyn_cast<OptimizerUpdate>(use.getOwner());
    if (update && &update.getParameterOperand() == &use)
      continue;
    auto cast = dyn_cast<nn::CastOp>(use.getOwner());
    types.addOnce(cast ? floatOf(cast.getResult()) : floatOf(parameter));
  }
  return types;
}

/// Ranks over which gradients are summed.
int64_t dataRanks(ModuleOp module) {
  int64_t ranks = 1;
  if (dist::MeshOp mesh = dist::getMesh(module))
    for (StringRef axis : mesh.getDataAxes())
      ranks *= mesh.getSize(axis);
  return ranks;
}

/// What the report says of one parameter.
struct ParameterNumerics {
  std::string name, kept, reduced, reducedSum;
  Types used, states;
  GradientPath path;
};

ParameterNumerics numericsOf(ModuleOp module, func::FuncOp step, OptimizerUpdate update) {
  ParameterNumerics all;
  Value parameter = update.getParameterOperand().get(), gradient = update.getGradientOperand().get();
  auto argument = dyn_cast<BlockArgument>(parameter);
  auto symbol = argument ? step.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr)
                         : FlatSymbolRefAttr();
  all.name = symbol ? symbol.getValue().str() : "a parameter";
  all.kept = nameOf(floatOf(parameter));
  all.used = usedIn(parameter);
  all.path = followGradient(module, step, gradient);
  auto policy = module->getAttrOfType<nn::PrecisionAttr>(nn::kPrecisionAttr);
  Type reduced = policy ? policy.getReduce() : floatOf(gradient);
  all.reduced = nameOf(reduced);
  all.reducedSum = nameOf(accumulatorType(reduced));
  for (OpOperand *state : update.getStateOperands())
    all.states.add(floatOf(state->get()));
  return all;
}

void print(const ParameterNumerics &all, int64_t ranks, raw_ostream &os) {
  os << all.name << "\n";
  auto line = [&](StringRef title, const std::string &text) { os << "  " << llvm::left_justify(title, 12) << text << "\n"; };
  line("kept", all.kept + ", used in " + all.used.text());
  if (!all.path.before.empty())
    line("backward", "computed in " + all.path.before.text());
  all.path.sums.print(os, "gradient");
  all.path.later.print(os, "then");
  all.path.accumulated.print(os, "accumulated");
  if (ranks > 1)
    line("reduced", all.reduced + " over " + std::to_string(ranks) + " ranks, each sum in " + all.reducedSum + " in rank order");
  else
    line("reduced", "not: one rank has the whole batch");
  line("update", all.states.empty() ? std::string("computed in f32") : "computed in f32; state in " + all.states.text());
}

llvm::json::Object json(const ParameterNumerics &all, int64_t ranks) {
  llvm::json::Value reduced = nullptr;
  if (ranks > 1)
    reduced = llvm::json::Object{{"type", all.reduced}, {"added", all.reducedSum}, {"ranks", ranks}};
  return llvm::json::Object{{"name", all.name}, {"kept", all.kept}, {"used", all.used.json()}, {"backward", all.path.before.json()},
                            {"gradient", all.path.sums.json()}, {"then", all.path.later.json()},
                            {"accumulated", all.path.accumulated.json()}, {"reduced", std::move(reduced)},
                            {"update", llvm::json::Object{{"computed", "f32"}, {"state", all.states.json()}}}};
}

} // namespace

void reportNumerics(ModuleOp module, ReportForm form, llvm::raw_ostream &os) {
  auto step = module.lookupSymbol<func::FuncOp>("step");
  int64_t ranks = dataRanks(module);
  llvm::json::Array parameters;
  if (form == ReportForm::Text)
    os << "numerics      of each trained parameter\n";
  if (step)
    for (auto update : step.getOps<OptimizerUpdate>()) {
      ParameterNumerics all = numericsOf(module, step, update);
      if (form == ReportForm::Text)
        print(all, ranks, os);
      else
        parameters.push_back(json(all, ranks));
    }
  if (form != ReportForm::Text)
    os << llvm::json::Value(std::move(parameters)) << "\n";
}

} // namespace shale
