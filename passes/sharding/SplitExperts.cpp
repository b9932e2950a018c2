//===- SplitExperts.cpp - Computes with experts where their matrices are --===//
//
// Values by row of the batch get a leading factor, the part of the experts: [S, ...]
// becomes [parts * S, ...], split over the axis of experts. A part has all rows of the
// ranks along the axis, and computes with those whose experts it has. A result is needed
// as the sum over parts; linear ops compute with its terms as long as that is less to
// send than the sum.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/GroupedMatmul.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Analysis/Rows.h"
#include "lib/Support/DeadOps.h"
#include "lib/Support/OpCopies.h"
#include "lib/Support/Remarks.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "passes/sharding/Passes.h"
#include "passes/sharding/TensorLayout.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace shale {

#define GEN_PASS_DEF_SPLITEXPERTSPASS
#include "passes/sharding/Passes.h.inc"

namespace {

/// A value of all parts: [parts * S, ...] for a value [S, ...].
struct Parts {
  Value value;
  /// Whether each part has the value itself.
  bool isCopy = false;
  /// The dimensions that count rows of experts. Each part has the value itself where they count a
  /// row of one of its experts; none if that is not so.
  SmallVector<int64_t, 2> rows;
  /// Whether the value is the sum over the parts.
  bool isSum = false;

  /// Whether a part has the value of its own rows.
  bool hasOwnRows() const { return isCopy || !rows.empty(); }
};

/// How an op computes with the leading factor of its tensors.
struct Leading {
  int64_t factor = -1; ///< -1: it has none
  bool isSummed = false;
  explicit operator bool() const { return factor >= 0; }
};

/// The rows of one choice of experts, in parts.
struct Routing {
  Value isOwn; ///< whether a part has the expert of a row
  DenseMap<Value, Parts> computed;
  DenseMap<std::pair<Value, Attribute>, Parts> moved; ///< by value and phase
};

/// Rewrites the matmuls of one function.
class ExpertSplitter {
public:
  ExpertSplitter(func::FuncOp function, const AxisList &axes, int64_t parts)
      : block(function.getBody().front()), axes(axes), parts(parts),
        b(function.getContext(), &listener) {}
  LogicalResult run();

  llvm::MapVector<BlockArgument, int64_t> matrices; ///< and their dimensions that the axes split
  int64_t matmuls = 0;

private:
  template <typename OpT> LogicalResult split(OpT op, Value matrix);
  LogicalResult findMatrices(Operation *user, Value value);
  bool compute(Operation *op);
  bool compute(Operation *op, Routing &routing);
  std::optional<Parts> build(Operation *op, const Leading &leading, Routing &routing);
  const Parts *find(Routing &routing, Value value);
  int64_t bytesToMove(Routing &routing, Value value, unsigned depth = 0);
  Parts toParts(Routing &routing, Value value);
  Parts move(Value value);
  Value constrain(Value value, bool split);
  Value sum(Value ofParts, RankedTensorType type);
  void findOwnRows(Routing &routing, Value experts, int64_t count);
  Value ownRowsOf(Routing &routing, Value value, ArrayRef<int64_t> rows);
  RankedTensorType typeOfParts(Value value);
  Routing &routingOf(Value experts, int64_t count) { return routings[{experts, count}]; }

  Block &block;
  const AxisList &axes;
  int64_t parts;
  CopyAttributes listener;
  OpBuilder b;
  /// By the experts of rows and the number of experts, in program order.
  llvm::MapVector<std::pair<Value, int64_t>, Routing> routings;
};

} // namespace

/// Returns the name of the state that an argument is; null if it is none.
static FlatSymbolRefAttr stateOf(BlockArgument argument) {
  auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
  return function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(), nn::kStateAttr);
}

//===- Ops on rows --------------------------------------------------------===//

/// Whether dimension 0 of every tensor that has the factor begins with it.
static bool leads(ArrayRef<TensorFactors> tensors, int64_t factor) {
  return llvm::all_of(tensors, [&](const TensorFactors &tensor) {
    return !hasFactor(tensor, factor) || (!tensor[0].empty() && tensor[0][0] == factor);
  });
}

/// Returns how an op computes with the leading factor of a tensor of its rule.
static Leading leadingOf(Operation *op, const ShardingRule &rule, const TensorFactors &tensor) {
  auto stochastic = dyn_cast<StochasticOpInterface>(op);
  if (op->getNumOperands() == 0 || op->getNumResults() != 1 || op->getNumRegions() != 0 ||
      !isMemoryEffectFree(op) || (stochastic && stochastic.drawsRandom()) || tensor.empty() ||
      tensor[0].empty())
    return {};
  int64_t factor = tensor[0][0];
  const Factor &own = rule.factors[factor];
  if (own.contiguous || !leads(rule.operands, factor) || !leads(rule.results, factor))
    return {};
  bool has = hasFactor(rule.results[0], factor);
  if (own.kind == FactorKind::Parallel && has)
    return {factor, false};
  return own.kind == FactorKind::Sum && !has ? Leading{factor, true} : Leading();
}

/// Returns the dimensions of a result that count the same rows as those of an operand, and nothing
/// else; none if the op sums over rows, or computes with several.
static SmallVector<int64_t, 2> rowsOfResult(const ShardingRule &rule, const TensorFactors &operand,
                                            ArrayRef<int64_t> rows) {
  SmallVector<int64_t, 2> dims;
  size_t count = 0, found = 0;
  for (int64_t row : rows)
    for (int64_t factor : operand[row]) {
      if (rule.factors[factor].kind != FactorKind::Parallel)
        return {};
      ++count;
      for (auto [dim, factors] : llvm::enumerate(rule.results[0]))
        if (llvm::is_contained(factors, factor) && !llvm::is_contained(dims, int64_t(dim))) {
          dims.push_back(dim);
          found += factors.size();
        }
    }
  // Each factor of the rows is there, and no other in these dimensions.
  return found == count ? dims : SmallVector<int64_t, 2>();
}

/// Whether the result is a sum over parts if these operands are, and others are copies.
static bool isLinearIn(const ShardingRule &rule, ArrayRef<int64_t> sums) {
  if (sums.empty() ||
      !llvm::all_of(sums, [&](int64_t i) { return llvm::is_contained(rule.linear, i); }))
    return false;
  return rule.additive ? sums.size() == rule.linear.size() : sums.size() == 1;
}

RankedTensorType ExpertSplitter::typeOfParts(Value value) {
  auto type = nn::tensorOf(value);
  SmallVector<int64_t> shape(type.getShape());
  shape[0] *= parts;
  return type.clone(shape);
}

/// Builds an op that computes with all parts; nothing if parts do not have what it needs.
std::optional<Parts> ExpertSplitter::build(Operation *op, const Leading &leading,
                                           Routing &routing) {
  ShardingRule rule = getRule(op);
  SmallVector<Value> operands;
  SmallVector<Parts> read(op->getNumOperands());
  Parts made;
  made.isCopy = true;
  bool agree = true;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    operands.push_back(operand);
    if (!hasFactor(rule.operands[i], leading.factor))
      continue;
    const Parts *known = find(routing, operand);
    read[i] = known ? *known : toParts(routing, operand);
    operands.back() = read[i].value;
    if (read[i].isCopy)
      continue;
    made.isCopy = false;
    SmallVector<int64_t, 2> rows = rowsOfResult(rule, rule.operands[i], read[i].rows);
    agree &= !rows.empty() && (made.rows.empty() || made.rows == rows);
    made.rows = rows;
  }
  if (!agree || made.isCopy)
    made.rows.clear();
  // Terms of a sum over parts: what is not one of them yet has zeros in the rows of other parts.
  bool needsSum = leading.isSummed || (!made.isCopy && made.rows.empty());
  auto mayMask = [&](const Parts &part, bool isTerm) {
    return !part.rows.empty() ? needsSum : part.isCopy && isTerm && !made.rows.empty();
  };
  bool hasSum = llvm::any_of(read, [](const Parts &part) { return part.isSum; });
  SmallVector<int64_t> sums;
  bool others = false; ///< whether a term is computed with other floats
  for (auto [i, part] : llvm::enumerate(read)) {
    bool isTerm = rule.additive && hasSum && llvm::is_contained(rule.linear, i);
    if (part.value && !part.isSum && mayMask(part, isTerm)) {
      operands[i] = ownRowsOf(routing, part.value, part.isCopy ? made.rows : part.rows);
      sums.push_back(i);
    } else if (part.isSum) {
      sums.push_back(i);
    } else {
      others |= part.value && isa<FloatType>(nn::tensorOf(part.value).getElementType());
    }
  }
  // A number may be infinite, and times zero no zero: then the rows of other parts are masked.
  made.isSum = isLinearIn(rule, sums) && (rule.additive || !others);
  if (!made.isSum && (leading.isSummed || !made.hasOwnRows()))
    return std::nullopt;
  Value result = op->getResult(0);
  RankedTensorType type = leading.isSummed ? nn::tensorOf(result) : typeOfParts(result);
  Operation *copy = cloneWithRows(b, op, operands, type);
  if (Attribute phase = nn::phaseOf(listener.current))
    copy->setAttr(nn::kPhaseAttr, phase);
  made.value = copy->getResult(0);
  return made;
}

//===- Values of rows -----------------------------------------------------===//

const Parts *ExpertSplitter::find(Routing &routing, Value value) {
  if (auto it = routing.computed.find(value); it != routing.computed.end())
    return &it->second;
  auto it = routing.moved.find({value, nn::phaseOf(listener.current)});
  return it != routing.moved.end() ? &it->second : nullptr;
}

/// Whether every part makes the value without other ranks.
static bool isMadeAnywhere(Value value) {
  if (nn::tensorOf(value).getRank() == 0)
    return false;
  if (auto iota = value.getDefiningOp<nn::IotaOp>())
    return iota.getDim() != 0;
  auto constant = value.getDefiningOp<nn::ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return dense && dense.isSplat();
}

/// Returns how many bytes of each rank's rows other ranks need.
int64_t ExpertSplitter::bytesToMove(Routing &routing, Value value, unsigned depth) {
  const Parts *known = find(routing, value);
  if ((known && known->hasOwnRows()) || isMadeAnywhere(value))
    return 0;
  auto result = dyn_cast<OpResult>(value);
  int64_t own = nn::tensorBytes(nn::tensorOf(value));
  constexpr unsigned kDepth = 8;
  Operation *op = value.getDefiningOp();
  ShardingRule rule = op ? getRule(op) : ShardingRule();
  Leading leading = op ? leadingOf(op, rule, rule.results[result.getResultNumber()]) : Leading();
  if (!leading || leading.isSummed || isMatmul(rule) || depth == kDepth)
    return own;
  int64_t others = 0;
  for (auto [i, operand] : llvm::enumerate(op->getOperands()))
    if (hasFactor(rule.operands[i], leading.factor) && others < own)
      others += bytesToMove(routing, operand, depth + 1);
  return std::min(own, others);
}

Value ExpertSplitter::constrain(Value value, bool split) {
  TensorLayout layout = TensorLayout::replicated(nn::tensorOf(value).getRank());
  if (split)
    layout.dims[0].assign(axes.begin(), axes.end());
  return dist::ConstrainOp::create(b, listener.current->getLoc(), value.getType(), value,
                                   layout.toAttr(b.getContext()));
}

/// Gives each part a copy.
Parts ExpertSplitter::move(Value value) {
  Location loc = listener.current->getLoc();
  RankedTensorType type = nn::tensorOf(value);
  SmallVector<int64_t> shape{parts};
  llvm::append_range(shape, type.getShape());
  Value copies =
      nn::BroadcastOp::create(b, loc, type.clone(shape), constrain(value, false),
                              llvm::to_vector(llvm::seq<int64_t>(1, type.getRank() + 1)));
  Parts made;
  made.value = nn::ReshapeOp::create(b, loc, typeOfParts(value), constrain(copies, true));
  made.isCopy = true;
  return made;
}

/// Returns a value in parts that have their own rows of it.
Parts ExpertSplitter::toParts(Routing &routing, Value value) {
  if (const Parts *known = find(routing, value); known && known->hasOwnRows())
    return *known;
  std::pair<Value, Attribute> key{value, nn::phaseOf(listener.current)};
  auto result = dyn_cast<OpResult>(value);
  std::optional<Parts> made;
  if (isMadeAnywhere(value)) {
    made.emplace();
    made->isCopy = true;
    Operation *op = value.getDefiningOp();
    RankedTensorType type = typeOfParts(value);
    if (auto constant = dyn_cast<nn::ConstantOp>(op))
      made->value = nn::ConstantOp::create(
          b, op->getLoc(), cast<DenseElementsAttr>(constant.getValue()).resizeSplat(type));
    else
      made->value = cloneAs(b, op, {}, type)->getResult(0);
  } else if (result && bytesToMove(routing, value) < nn::tensorBytes(nn::tensorOf(value))) {
    Operation *op = result.getOwner();
    ShardingRule rule = getRule(op);
    made = build(op, leadingOf(op, rule, rule.results[0]), routing);
    if (made && !made->hasOwnRows())
      made.reset();
    if (made && !made->isCopy)
      return routing.computed[value] = *made;
  }
  if (!made)
    made = move(value);
  return routing.moved[key] = *made;
}

/// Builds the sum over parts.
Value ExpertSplitter::sum(Value ofParts, RankedTensorType type) {
  Location loc = listener.current->getLoc();
  SmallVector<int64_t> shape{parts};
  llvm::append_range(shape, type.getShape());
  Value wide = nn::ReshapeOp::create(b, loc, type.clone(shape), ofParts);
  Type element = type.getElementType(), sums = accumulatorType(element);
  Value total = nn::ReduceOp::create(b, loc, type.clone(sums), nn::ReduceKind::Sum, wide,
                                     b.getDenseI64ArrayAttr({0}));
  return sums == element ? total : nn::CastOp::create(b, loc, type, total);
}

/// Builds the mask of the rows that are a part's own, by their experts: numbers in parts, of
/// `count`. Each row is that of one part, also if there is no such expert.
void ExpertSplitter::findOwnRows(Routing &routing, Value experts, int64_t count) {
  if (routing.isOwn)
    return;
  Location loc = listener.current->getLoc();
  RankedTensorType flat = nn::tensorOf(experts),
                   type = flat.clone({parts, flat.getDimSize(0) / parts});
  auto splat = [&](int64_t number) { return nn::splat(b, loc, type, number); };
  int64_t each = count / parts;
  Value number = nn::ReshapeOp::create(b, loc, type, experts);
  Value part = nn::IotaOp::create(b, loc, type, 0);
  Value first = nn::MulOp::create(b, loc, type, part, splat(each));
  Value place = nn::SubOp::create(b, loc, type, number, first);
  auto compare = [&](nn::Predicate predicate, Value value, int64_t with) -> Value {
    return nn::CompareOp::create(b, loc, type.clone(b.getI1Type()), predicate, value, splat(with));
  };
  auto either = [&](Value x, Value y) -> Value {
    return nn::OrOp::create(b, loc, x.getType(), x, y);
  };
  Value begins = either(compare(nn::Predicate::GE, place, 0), compare(nn::Predicate::EQ, part, 0));
  Value ends =
      either(compare(nn::Predicate::LT, place, each), compare(nn::Predicate::EQ, part, parts - 1));
  Value own = nn::AndOp::create(b, loc, begins.getType(), begins, ends);
  routing.isOwn = nn::ReshapeOp::create(b, loc, flat.clone(b.getI1Type()), own);
}

/// Returns a copy of each part with zeros in the rows of other parts, whose sum is the value.
Value ExpertSplitter::ownRowsOf(Routing &routing, Value value, ArrayRef<int64_t> rows) {
  Location loc = listener.current->getLoc();
  RankedTensorType type = nn::tensorOf(value);
  SmallVector<int64_t> shape;
  for (int64_t dim : rows)
    shape.push_back(type.getDimSize(dim));
  Type truth = b.getI1Type();
  Value mask = routing.isOwn;
  if (shape.size() > 1)
    mask = nn::ReshapeOp::create(b, loc, RankedTensorType::get(shape, truth), mask);
  mask = nn::BroadcastOp::create(b, loc, type.clone(truth), mask, rows);
  return nn::SelectOp::create(b, loc, type, mask, value, nn::splat(b, loc, type, 0));
}

//===- Rewriting ----------------------------------------------------------===//

/// Collects the arguments that the matrices `value` are computed from, each by itself.
LogicalResult ExpertSplitter::findMatrices(Operation *user, Value value) {
  SmallVector<std::pair<Value, int64_t>> work{{value, 0}};
  llvm::DenseSet<std::pair<Value, int64_t>> seen;
  bool found = false;
  while (!work.empty()) {
    auto [next, dim] = work.pop_back_val();
    if (!seen.insert({next, dim}).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      if (stateOf(argument) && matrices.insert({argument, dim}).first->second != dim)
        return user->emitOpError("cannot be split by experts: its parameter counts others along "
                                 "another dimension");
      found = true;
      continue;
    }
    RowRelation relation = relateRows(cast<OpResult>(next), dim);
    if (relation.use != RowUse::Each)
      continue;
    for (auto [operand, at] : llvm::zip(next.getDefiningOp()->getOperands(), relation.operands))
      if (at >= 0)
        work.push_back({operand, at});
  }
  if (!found)
    return user->emitOpError("cannot be split by experts: its matrices are no parameters, or are "
                             "computed from all experts; use the ranks as fsdp");
  return success();
}

template <typename OpT> LogicalResult ExpertSplitter::split(OpT op, Value matrix) {
  int64_t count = nn::tensorOf(matrix).getDimSize(0);
  if (count % parts != 0)
    return op.emitOpError("has ") << count << " experts, which the " << parts << " ranks of axis '"
                                  << llvm::join(axes, dist::kJoin)
                                  << "' do not divide: use a number of ranks that divides "
                                  << count;
  listener.current = op;
  b.setInsertionPoint(op);
  ++matmuls;
  Routing &routing = routingOf(op.getExperts(), count);
  Value experts = toParts(routing, op.getExperts()).value;
  findOwnRows(routing, experts, count);
  Value lhs = toParts(routing, op.getLhs()).value;
  if constexpr (std::is_same_v<OpT, nn::ExpertMatmulOp>) {
    if (failed(findMatrices(op, op.getRhs())))
      return failure();
    Parts made;
    made.value = OpT::create(b, op.getLoc(), typeOfParts(op.getResult()), lhs, op.getRhs(), experts,
                             op.getTransposeRhs(), parts, op.getOfAttr());
    made.rows = {0};
    made.isSum = true;
    Value total = sum(made.value, op.getType());
    routing.computed[total] = made;
    op.replaceAllUsesWith(total);
  } else {
    Value rhs = toParts(routing, op.getRhs()).value;
    op.replaceAllUsesWith(
        OpT::create(b, op.getLoc(), op.getType(), lhs, rhs, experts, parts, op.getOfAttr())
            .getResult());
  }
  op.erase();
  return success();
}

/// Lets parts compute an op whose operands they have, if its result is not larger than these, and
/// if other operands are little to move. A result that is linear in sums over parts is summed
/// itself.
bool ExpertSplitter::compute(Operation *op, Routing &routing) {
  ShardingRule rule = getRule(op);
  if (isMatmul(rule) && rule.linear.size() > 1) // sums by index are none
    return false;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    auto known = routing.computed.find(operand);
    Leading leading;
    if (known != routing.computed.end())
      leading = leadingOf(op, rule, rule.operands[i]);
    if (!leading)
      continue;
    int64_t bytes = nn::tensorBytes(nn::tensorOf(operand)), moved = 0;
    listener.current = op;
    for (auto [j, other] : llvm::enumerate(op->getOperands()))
      if (hasFactor(rule.operands[j], leading.factor) && !routing.computed.contains(other))
        moved += bytesToMove(routing, other);
    Value result = op->getResult(0);
    // A sum with what is not in parts gains nothing.
    if (moved > (rule.additive ? bytes / 4 : bytes))
      continue;
    b.setInsertionPoint(op);
    std::optional<Parts> made = build(op, leading, routing);
    if (!made)
      continue;
    if (leading.isSummed) {
      result.replaceAllUsesWith(made->value);
    } else if (isa<FloatType>(nn::tensorOf(result).getElementType()) &&
               nn::elements(result) <= nn::elements(operand)) {
      // A wider type is no matter: what is summed in it is narrowed again.
      Value terms = made->isSum ? made->value : ownRowsOf(routing, made->value, made->rows);
      Value total = sum(terms, nn::tensorOf(result));
      routing.computed[total] = *made;
      result.replaceAllUsesWith(total);
    } else {
      routing.computed[result] = *made;
    }
    return true;
  }
  return false;
}

bool ExpertSplitter::compute(Operation *op) {
  if (op->getNumResults() != 1 || !isa<ShardingRuleOpInterface>(op) ||
      !isa<RankedTensorType>(op->getResult(0).getType()))
    return false;
  return llvm::any_of(routings, [&](auto &entry) { return compute(op, entry.second); });
}

LogicalResult ExpertSplitter::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : block)
    ops.push_back(&op);
  for (Operation *op : ops) {
    LogicalResult done = success();
    if (auto matmul = dyn_cast<nn::ExpertMatmulOp>(op))
      done = split(matmul, matmul.getRhs());
    else if (auto gradient = dyn_cast<nn::ExpertMatmulGradOp>(op))
      done = split(gradient, gradient.getResult());
    else
      compute(op);
    if (failed(done))
      return failure();
  }
  if (matmuls > 0)
    eraseDeadOps(block);
  return success();
}

//===- The pass -----------------------------------------------------------===//

/// Gives the arguments of states, in all functions, layouts with these dimensions split.
static void splitStates(ModuleOp module, const llvm::StringMap<int64_t> &dims,
                        const AxisList &axes) {
  for (auto function : module.getOps<func::FuncOp>())
    for (BlockArgument argument : function.getArguments()) {
      FlatSymbolRefAttr state = stateOf(argument);
      auto dim = state ? dims.find(state.getValue()) : dims.end();
      if (dim == dims.end())
        continue;
      TensorLayout layout =
          getLayout(argument).value_or(TensorLayout::replicated(nn::tensorOf(argument).getRank()));
      DimAxes &list = layout.dims[dim->second];
      list.insert(list.begin(), axes.begin(), axes.end());
      function.setArgAttr(argument.getArgNumber(), dist::kShardingAttr,
                          layout.toAttr(module.getContext()));
    }
}

static LogicalResult splitExperts(ModuleOp module, dist::MeshOp mesh) {
  AxisList axes;
  int64_t parts = 1;
  for (StringRef axis : mesh.getAxesThat(dist::splitsExperts))
    if (mesh.getSize(axis) > 1) {
      axes.push_back(axis);
      parts *= mesh.getSize(axis);
    }
  if (axes.empty())
    return success();
  llvm::StringMap<int64_t> dims;
  int64_t matmuls = 0;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !function.getBody().hasOneBlock())
      continue;
    ExpertSplitter splitter(function, axes, parts);
    if (failed(splitter.run()))
      return failure();
    matmuls += splitter.matmuls;
    for (auto [argument, dim] : splitter.matrices)
      if (dims.try_emplace(stateOf(argument).getValue(), dim).first->second != dim)
        return function.emitError("the experts of parameter '")
               << stateOf(argument).getValue() << "' are along another dimension than elsewhere";
  }
  if (matmuls == 0)
    return module.emitError("axis '")
           << llvm::join(axes, dist::kJoin)
           << "' splits experts, and no matmul of experts was found: use its ranks as fsdp";
  splitStates(module, dims, axes);
  emitDecision(module.getLoc(), "split-experts",
               llvm::formatv("{0} matmuls of experts and {1} parameters are split in {2} parts",
                             matmuls, dims.size(), parts)
                   .str());
  return success();
}

namespace {
struct SplitExpertsPass : impl::SplitExpertsPassBase<SplitExpertsPass> {
  void runOnOperation() final {
    dist::MeshOp mesh = dist::getMesh(getOperation());
    if (mesh && failed(splitExperts(getOperation(), mesh)))
      signalPassFailure();
  }
};
} // namespace

} // namespace shale
