//===- GradientBuilder.cpp - Reverse accumulation over a block ------------===//
#include "passes/autodiff/GradientBuilder.h"
#include "dialects/nn/Ops/Constant.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "passes/autodiff/SumGradients.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <deque>

using namespace mlir;

namespace shale {

/// Maximum number of op names shown per path.
static constexpr size_t kPathLength = 12;
/// Maximum number of ops without a gradient that an error lists after the first.
static constexpr size_t kMissingShown = 20;

static bool isFloatTensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

GradientBuilder::GradientBuilder(OpBuilder &builder, Block &block, ArrayRef<Value> wanted)
    : builder(builder), wanted(wanted.begin(), wanted.end()) {
  for (Operation &op : block)
    ops.push_back(&op);
  markVaried();
}

void GradientBuilder::markVaried() {
  varied.insert(wanted.begin(), wanted.end());
  for (Operation *op : ops)
    if (llvm::any_of(op->getOperands(), [&](Value v) { return varied.contains(v); }))
      for (Value result : op->getResults())
        if (isFloatTensor(result))
          varied.insert(result);
}

void GradientBuilder::accumulate(Value value, Value gradient) {
  if (!current)
    seeds.push_back(value);
  Value &known = gradients[value];
  known = known ? buildGradientSum(builder, known, gradient) : gradient;
}

namespace {

/// Gives inserted ops the phase backward and the scope of `source`.
struct PhaseListener : OpBuilder::Listener {
  void notifyOperationInserted(Operation *op, OpBuilder::InsertPoint previous) override {
    if (previous.isSet())
      return; // moved, not created
    op->setAttr(nn::kPhaseAttr, nn::PhaseAttr::get(op->getContext(), nn::Phase::Backward));
    if (source)
      if (Attribute scope = source->getAttr(nn::kScopeAttr))
        op->setAttr(nn::kScopeAttr, scope);
  }
  Operation *source = nullptr;
};

/// Returns the op's name, and the name of its ONNX node if its location has one.
std::string nameOf(Operation *op) {
  std::string text = op->getName().getStringRef().str();
  if (auto name = op->getLoc()->findInstanceOf<NameLoc>())
    text += " '" + name.getName().str() + "'";
  return text;
}

using Parents = llvm::DenseMap<Operation *, Operation *>;

/// Returns the ops that depend on `value`, in breadth-first order. Sets `parents`
/// to the previous op on a shortest path (null for direct users).
SmallVector<Operation *> influenced(Value value, Parents &parents) {
  SmallVector<Operation *> order;
  auto visitUsers = [&](Value v, Operation *from) {
    for (Operation *user : v.getUsers())
      if (parents.try_emplace(user, from).second)
        order.push_back(user);
  };
  visitUsers(value, nullptr);
  for (size_t i = 0; i < order.size(); ++i)
    for (Value result : order[i]->getResults())
      visitUsers(result, order[i]);
  return order;
}

std::string pathTo(Operation *op, const Parents &parents) {
  SmallVector<std::string> names;
  for (; op; op = parents.lookup(op))
    names.push_back(nameOf(op));
  std::reverse(names.begin(), names.end());
  if (names.size() > kPathLength) {
    size_t dropped = names.size() - kPathLength;
    names.erase(names.begin() + kPathLength / 2, names.begin() + kPathLength / 2 + dropped);
    names.insert(names.begin() + kPathLength / 2, "(" + std::to_string(dropped) + " more)");
  }
  return llvm::join(names, " -> ");
}

std::string describe(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument)
    return "a value";
  auto function = dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
  if (function)
    if (auto state =
            function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr))
      return "parameter '" + state.getValue().str() + "'";
  return "argument " + std::to_string(argument.getArgNumber());
}

} // namespace

void GradientBuilder::visit(Operation *op) {
  SmallVector<Value> resultGrads;
  for (Value result : op->getResults())
    resultGrads.push_back(gradients.lookup(result));
  SmallVector<bool> wantedOperands;
  for (Value operand : op->getOperands())
    wantedOperands.push_back(varied.contains(operand));
  auto isTrue = [](bool value) { return value; };
  if (llvm::none_of(resultGrads, [](Value v) { return bool(v); }) ||
      llvm::none_of(wantedOperands, isTrue))
    return;

  SmallVector<Value> operandGrads(op->getNumOperands());
  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable ||
      failed(differentiable.buildGradient(builder, resultGrads, wantedOperands, operandGrads))) {
    missing.push_back(op);
    // Use zero as the gradient, so that further missing gradients are found too.
    for (auto [operand, isWanted, grad] :
         llvm::zip(op->getOperands(), wantedOperands, operandGrads))
      if (isWanted)
        grad = zeroOf(operand);
  }
  for (auto [operand, isWanted, grad] : llvm::zip(op->getOperands(), wantedOperands, operandGrads))
    if (isWanted && grad)
      accumulate(operand, grad);
}

Value GradientBuilder::zeroOf(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  auto zero = DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 0));
  return nn::ConstantOp::create(builder, value.getLoc(), zero);
}

std::string GradientBuilder::explainPath(Operation *op) const {
  for (Value value : wanted) {
    Parents parents;
    influenced(value, parents);
    if (parents.count(op))
      return "the path from " + describe(value) + ": " + pathTo(op, parents);
  }
  return "";
}

/// Emits one error for all of them, at the op nearest to the loss.
LogicalResult GradientBuilder::reportMissing() const {
  Operation *first = missing.front();
  InFlightDiagnostic diag = emitError(first->getLoc())
                            << "no gradient: " << first->getName()
                            << " lies on a path from a trained parameter to the loss";
  diag.attachNote(first->getLoc())
      << explainPath(first) << "; freeze it, or express the op in others";
  for (Operation *op : ArrayRef(missing).drop_front().take_front(kMissingShown))
    diag.attachNote(op->getLoc()) << "no gradient either: " << op->getName() << "; "
                                  << explainPath(op);
  if (missing.size() > kMissingShown + 1)
    diag.attachNote(first->getLoc()) << "and " << missing.size() - kMissingShown - 1 << " more";
  return diag;
}

LogicalResult GradientBuilder::run() {
  PhaseListener listener;
  OpBuilder::Listener *outer = builder.getListener();
  builder.setListener(&listener);
  for (Operation *op : llvm::reverse(ops)) {
    listener.source = current = op;
    visit(op);
  }
  current = nullptr;
  builder.setListener(outer);
  return missing.empty() ? success() : reportMissing();
}

std::string GradientBuilder::explainMissing(Value value) const {
  if (value.use_empty())
    return "nothing uses it";
  Parents parents;
  SmallVector<Operation *> order = influenced(value, parents);
  for (Value seed : seeds)
    if (Operation *op = seed.getDefiningOp(); op && parents.count(op))
      return "no gradient passes its only path: " + pathTo(op, parents);
  Operation *last = order.back();
  if (last->hasTrait<OpTrait::IsTerminator>() && parents.lookup(last))
    last = parents.lookup(last);
  return "its influence ends at " + pathTo(last, parents);
}

} // namespace shale
