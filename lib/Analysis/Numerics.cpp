//===- Numerics.cpp - The float types of each parameter's training --------===//
#include "lib/Analysis/Numerics.h"
#include "dialects/dist/Runs.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
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

/// Names of types in the order in which they were added.
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

/// An operation on a gradient, and how often it occurs.
struct Event {
  std::string title, text;
  llvm::json::Object json;
  int64_t times = 1;
};

class Events {
public:
  /// Adds an event, or counts it if the same event exists: anywhere, or as the last one.
  void add(Event event, bool anywhere) {
    for (Event &other : llvm::reverse(events)) {
      if (other.text == event.text)
        return void(++other.times);
      if (!anywhere)
        break;
    }
    events.push_back(std::move(event));
  }
  /// Adds the events of another function on the same gradient that are missing here.
  void merge(Events other) {
    for (Event &event : other.events)
      if (llvm::none_of(events, [&](const Event &own) { return own.text == event.text; }))
        events.push_back(std::move(event));
  }
  void reverse() { std::reverse(events.begin(), events.end()); }
  /// Sets when all events with a title occur.
  void sayWhen(StringRef title, StringRef when) {
    for (Event &event : events)
      if (event.title == title) {
        event.text += ", " + when.str();
        event.json["when"] = when;
      }
  }
  void print(raw_ostream &os) const {
    for (const Event &event : events) {
      os << "  " << llvm::left_justify(event.title, 12) << event.text;
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

/// Returns the state that a function argument holds, or null.
FlatSymbolRefAttr stateOf(Value value) {
  auto argument = dyn_cast_or_null<BlockArgument>(value);
  auto function =
      argument ? dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()) : func::FuncOp();
  return function
             ? function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr)
             : FlatSymbolRefAttr();
}

/// The operations on one parameter's gradient in one function.
class GradientPath {
public:
  GradientPath(ModuleOp module, FlatSymbolRefAttr parameter)
      : module(module), parameter(parameter) {}

  /// Follows the gradient from its last value back to the ops that sum it up, then to the loss.
  void follow(Value gradient) {
    SmallVector<Value> work{gradient}, sources;
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *op = value.getDefiningOp();
      if (!op || !seen.insert(value).second)
        continue;
      if (auto pack = dyn_cast<dist::UnitPackOp>(op)) {
        if (Value part = dist::findInput(pack, parameter.getValue()))
          work.push_back(part);
        continue;
      }
      if (addAccumulation(op, work))
        continue;
      if (auto collective = dyn_cast<CollectiveOpInterface>(op))
        addReduction(collective);
      else if (auto cast = dyn_cast<nn::CastOp>(op))
        addCast(floatOf(cast.getInput()), floatOf(value));
      else if (auto precision = dyn_cast<PrecisionOpInterface>(op)) {
        Numeric numeric = precision.getResultNumeric(llvm::cast<OpResult>(value).getResultNumber());
        if (numeric == Numeric::Accumulates || numeric == Numeric::Full) {
          addSum(op, value);
          llvm::append_range(sources, op->getOperands());
          continue;
        }
        if (isa<ElementwiseOpInterface>(op)) {
          std::string name = op->getName().getStringRef().str(), type = nameOf(floatOf(value));
          path.add({"then", name + " in " + type, llvm::json::Object{{"op", name}, {"type", type}}},
                   false);
        }
      }
      llvm::append_range(work, op->getOperands());
    }
    path.reverse();
    followToLoss(sources);
  }

  Events sums, path;
  Types before;
  bool reduces = false;
  /// Accumulators that hold the sums of other functions.
  SmallVector<FlatSymbolRefAttr> accumulators;

private:
  void addCast(Type from, Type to) {
    unsigned before = from.getIntOrFloatBitWidth(), after = to.getIntOrFloatBitWidth();
    StringRef what = after < before ? "rounded" : after > before ? "widened" : "converted";
    path.add({"then", what.str() + " from " + nameOf(from) + " to " + nameOf(to),
              llvm::json::Object{{"op", "nn.cast"}, {"from", nameOf(from)}, {"to", nameOf(to)}}},
             false);
  }

  void addSum(Operation *op, Value value) {
    Types types;
    Type first;
    auto matmul = dyn_cast<nn::MatmulOp>(op);
    for (OpOperand &operand : op->getOpOperands())
      if (Type type = floatOf(operand.get())) {
        first = first ? first : type;
        Type rounded = matmul ? matmul.getQuantizedType(operand.getOperandNumber()) : Type();
        types.add(rounded ? rounded : type);
      }
    std::string name = op->getName().getStringRef().str(), gives = nameOf(floatOf(value));
    std::string sum = nameOf(first ? accumulatorType(first) : floatOf(value));
    sums.add(
        {"gradient", name + " of " + types.text() + ", accumulated in " + sum + ", gives " + gives,
         llvm::json::Object{
             {"op", name}, {"operands", types.json()}, {"accumulated", sum}, {"result", gives}}},
        true);
  }

  /// Adds a sum over micro-batches. Appends the gradient of this function's micro-batch to `work`.
  bool addAccumulation(Operation *op, SmallVectorImpl<Value> &work) {
    for (OpOperand &operand : op->getOpOperands()) {
      FlatSymbolRefAttr symbol = stateOf(operand.get());
      nn::StateOp state = nn::getState(module, symbol);
      if (!state || state.getRole() != nn::Role::GradAccumulator)
        continue;
      accumulators.push_back(symbol);
      for (OpOperand &own : op->getOpOperands()) {
        if (&own == &operand)
          continue;
        std::string type = nameOf(floatOf(own.get())),
                    sum = nameOf(accumulatorType(floatOf(own.get())));
        std::string kept = nameOf(floatOf(operand.get()));
        path.add({"accumulated",
                  type + " of each micro-batch, added in " + sum + ", kept in " + kept,
                  llvm::json::Object{
                      {"op", "accumulate"}, {"type", type}, {"added", sum}, {"kept", kept}}},
                 false);
        work.push_back(own.get());
      }
      return true;
    }
    return false;
  }

  void addReduction(CollectiveOpInterface op) {
    if (!shale::sums(op.getCollectiveKind()))
      return;
    reduces = true;
    std::string type = nameOf(floatOf(op->getOperand(0))),
                sum = nameOf(accumulatorType(floatOf(op->getOperand(0))));
    int64_t ranks = dist::getMesh(module).getSize(op.getCollectiveAxis());
    auto scatter = dyn_cast<dist::ReduceScatterOp>(op.getOperation());
    bool quantized = scatter && scatter.getEncodingAttr();
    path.add({"reduced",
              type + (quantized ? " as 8-bit integers" : "") + " over " + std::to_string(ranks) +
                  " ranks of " + op.getCollectiveAxis().str() + ", each sum in " + sum +
                  " in rank order",
              llvm::json::Object{{"op", "reduce"},
                                 {"type", type},
                                 {"added", sum},
                                 {"axis", op.getCollectiveAxis()},
                                 {"ranks", ranks}}},
             false);
  }

  /// Collects the types that the backward pass computes before the sums.
  void followToLoss(SmallVector<Value> work) {
    DenseSet<Value> seen;
    while (!work.empty()) {
      Value value = work.pop_back_val();
      Operation *op = value.getDefiningOp();
      if (!op || !nn::isInPhase(op, nn::Phase::Backward) || !seen.insert(value).second)
        continue;
      if (Type type = floatOf(value))
        before.addOnce(type);
      llvm::append_range(work, op->getOperands());
    }
  }

  ModuleOp module;
  FlatSymbolRefAttr parameter;
};

/// The report of one parameter.
struct ParameterNumerics {
  std::string name, kept;
  Types used, states;
  GradientPath path;
};

/// Follows the gradient of an update and, through its accumulator, the gradients in the
/// functions of earlier micro-batches.
void followGradient(ModuleOp module, func::FuncOp step, FlatSymbolRefAttr parameter, Value gradient,
                    ParameterNumerics &all) {
  all.path.follow(gradient);
  bool earlierReduce = false;
  for (FlatSymbolRefAttr accumulator : all.path.accumulators)
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function == step || function.isExternal())
        continue;
      Operation *terminator = function.getBody().front().getTerminator();
      for (OpOperand &result : terminator->getOpOperands())
        if (function.getResultAttrOfType<FlatSymbolRefAttr>(result.getOperandNumber(),
                                                            nn::kStateAttr) == accumulator) {
          GradientPath earlier(module, parameter);
          earlier.follow(result.get());
          earlierReduce |= earlier.reduces;
          all.path.sums.merge(std::move(earlier.sums));
          all.path.path.merge(std::move(earlier.path));
        }
    }
  if (!all.path.accumulators.empty())
    all.path.path.sayWhen("reduced", earlierReduce ? "each micro-batch" : "once per step");
}

/// Returns the types in which a parameter is read in a step.
Types usedIn(func::FuncOp step, FlatSymbolRefAttr parameter) {
  Types types;
  for (auto view : step.getOps<dist::UnitViewOp>())
    if (dist::hasParameter(view, parameter.getValue()))
      for (Operation *user : view->getUsers())
        types.addOnce(
            floatOf(isa<nn::CastOp>(user) ? user->getResult(0) : Value(view.getResult())));
  return types;
}

/// Adds the parameters of the updated group to `found`, by name.
void addGroup(ModuleOp module, func::FuncOp step, OptimizerUpdateOpInterface update,
              llvm::StringMap<ParameterNumerics> &found) {
  Value parameter = update.getParameterOperand().get();
  while (Operation *slice = parameter.getDefiningOp())
    parameter = slice->getOperand(0);
  FlatSymbolRefAttr symbol = stateOf(parameter);
  nn::StateOp state = nn::getState(module, symbol);
  auto name =
      state ? state->getAttrOfType<FlatSymbolRefAttr>(dist::kUnitAttr) : FlatSymbolRefAttr();
  auto index = state ? state->getAttrOfType<IntegerAttr>(dist::kGroupAttr) : IntegerAttr();
  auto unit = name ? module.lookupSymbol<dist::UnitOp>(name.getAttr()) : dist::UnitOp();
  if (!unit || !index)
    return;
  for (auto segment : unit.getGroup(index.getInt()).getSegments().getAsRange<dist::SegmentAttr>()) {
    ParameterNumerics all{segment.getParam().getValue().str(),
                          nameOf(floatOf(parameter)),
                          usedIn(step, segment.getParam()),
                          {},
                          GradientPath(module, segment.getParam())};
    followGradient(module, step, segment.getParam(), update.getGradientOperand().get(), all);
    for (auto moment : module.getOps<nn::StateOp>())
      if (moment.getRole() == nn::Role::Moment && moment.getOfAttr() == symbol)
        all.states.add(moment.getTensorType().getElementType());
    found.try_emplace(all.name, std::move(all));
  }
}

void print(const ParameterNumerics &all, int64_t ranks, raw_ostream &os) {
  os << all.name << "\n";
  auto line = [&](StringRef title, const std::string &text) {
    os << "  " << llvm::left_justify(title, 12) << text << "\n";
  };
  line("kept", all.kept + ", used in " + all.used.text());
  if (!all.path.before.empty())
    line("backward", "computed in " + all.path.before.text());
  all.path.sums.print(os);
  all.path.path.print(os);
  if (!all.path.reduces)
    line("reduced",
         ranks > 1 ? "not: each rank has the whole sum" : "not: one rank has the whole batch");
  line("update", all.states.empty() ? std::string("computed in f32")
                                    : "computed in f32; state in " + all.states.text());
}

llvm::json::Object json(const ParameterNumerics &all) {
  return llvm::json::Object{
      {"name", all.name},
      {"kept", all.kept},
      {"used", all.used.json()},
      {"backward", all.path.before.json()},
      {"gradient", all.path.sums.json()},
      {"then", all.path.path.json()},
      {"update", llvm::json::Object{{"computed", "f32"}, {"state", all.states.json()}}}};
}

} // namespace

void reportNumerics(ModuleOp module, ReportForm form, llvm::raw_ostream &os) {
  llvm::StringMap<ParameterNumerics> found;
  if (auto step = module.lookupSymbol<func::FuncOp>("step"))
    for (auto update : step.getOps<OptimizerUpdateOpInterface>())
      addGroup(module, step, update, found);
  llvm::json::Array parameters;
  if (form == ReportForm::Text)
    os << "numerics      of each trained parameter\n";
  for (auto state : module.getOps<nn::StateOp>()) // in the order of the model
    if (auto it = found.find(state.getSymName()); it != found.end()) {
      if (form == ReportForm::Text)
        print(it->second, dist::getMesh(module).getRankCount(), os);
      else
        parameters.push_back(json(it->second));
    }
  if (form != ReportForm::Text)
    os << llvm::json::Value(std::move(parameters)) << "\n";
}

} // namespace shale
