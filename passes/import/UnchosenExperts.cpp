//===- UnchosenExperts.cpp - What tensors are for experts not chosen ------===//
//
// Routing weights are zeros, or scores -inf, for all experts but the chosen ones, because the
// chosen values are scattered into a constant or multiplied by rows that compare the experts with
// the chosen ones. From there on ops are evaluated with such a number, and zeros pass through ops
// that are linear in them.
//
//===----------------------------------------------------------------------===//
#include "passes/import/UnchosenExperts.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Norm.h"
#include "lib/Folding/Fold.h"
#include "mlir/IR/Block.h"
#include "passes/import/ExpertLookups.h"
#include "passes/import/Matchers.h"

using namespace mlir;
using namespace shale;
using namespace shale::recover;

/// Values before the one in question that are looked at.
constexpr unsigned kDepth = 64;

static bool isZero(Attribute number) {
  if (auto real = dyn_cast_or_null<FloatAttr>(number))
    return real.getValue().isZero();
  auto integer = dyn_cast_or_null<IntegerAttr>(number);
  return integer && integer.getValue().isZero();
}

/// Returns where the operand of an op that moves its elements has tokens and experts.
static std::optional<Place> beforeMove(const Choice &choice, OpResult result, Place place) {
  if (isa<nn::ReshapeOp>(result.getOwner()))
    return place;
  std::optional<SmallVector<Place>> places = placesOfOperands(choice, result, place);
  return places ? std::optional(places->front()) : std::nullopt;
}

/// Whether all elements of a value are numbers of experts that their token chose.
static bool isOfChosen(const Choice &choice, Value value, Place place, unsigned depth) {
  if (depth == kDepth)
    return false;
  Value peeled = peelIndices(value);
  if (peeled == choice.indices)
    return place == Place{choice.chosen, 0};
  if (peeled != value)
    return isOfChosen(choice, peeled, place, depth + 1);
  auto result = dyn_cast<OpResult>(value);
  if (!result || !isa<ElementMoveOpInterface>(result.getOwner()) || !boundOf(value) ||
      result.getOwner()->getNumOperands() != 1)
    return false;
  std::optional<Place> before = beforeMove(choice, result, place);
  return before && isOfChosen(choice, result.getOwner()->getOperand(0), *before, depth + 1);
}

/// Whether each element of a value is the number of its expert.
static bool isOfExpert(const Choice &choice, Value value, Place place, unsigned depth) {
  if (place.expert == 0 || depth == kDepth)
    return false;
  RankedTensorType type = tensor(value);
  if (!isa<IntegerType>(type.getElementType()) ||
      type.getElementType().getIntOrFloatBitWidth() < 32)
    return false;
  if (auto iota = value.getDefiningOp<nn::IotaOp>()) {
    int64_t dim = iota.getDim();
    return type.getDimSize(dim) == choice.experts && strideOf(type.getShape(), dim) == place.expert;
  }
  constexpr int64_t kElements = 1 << 20;
  if (DenseElementsAttr numbers = constantOf(value)) {
    if (type.getNumElements() > kElements)
      return false;
    return llvm::all_of(llvm::enumerate(numbers.getValues<APInt>()), [&](const auto &entry) {
      return entry.value().getSExtValue() == int64_t(entry.index()) / place.expert % choice.experts;
    });
  }
  auto result = dyn_cast<OpResult>(value);
  if (!result || !isa<nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp>(result.getOwner()))
    return false;
  std::optional<Place> before = beforeMove(choice, result, place);
  return before && isOfExpert(choice, result.getOwner()->getOperand(0), *before, depth + 1);
}

/// Whether an op adds values by the indices of the chosen experts: others get none.
static bool scattersChosen(const Choice &choice, nn::GatherNdGradOp op, Place place) {
  RankedTensorType tuples = tensor(op.getIndices()), type = tensor(op.getResult());
  int64_t batch = op.getBatchDims();
  if (tuples.getRank() != batch + 2 || tuples.getShape().back() != 1 || type.getRank() <= batch ||
      type.getDimSize(batch) != choice.experts)
    return false;
  // Lines of tuples are lines of tokens.
  int64_t stride = strideOf(type.getShape(), batch);
  Place lines{tuples.getDimSize(batch), 0};
  return place == Place{stride * choice.experts, stride} &&
         chosenShape(choice, tuples.getShape(), lines) &&
         isOfChosen(choice, op.getIndices(), lines, 0);
}

/// Computes an elementwise op on one number each.
static Attribute evaluate(Operation *op, ArrayRef<Attribute> numbers) {
  Block block;
  SmallVector<DenseElementsAttr> ones;
  auto one = [](Value value) { return tensor(value).clone(SmallVector<int64_t>(1, 1)); };
  for (auto [operand, number] : llvm::zip(op->getOperands(), numbers)) {
    ones.push_back(DenseElementsAttr::get(one(operand), number));
    block.addArgument(one(operand), op->getLoc());
  }
  OpBuilder inside(op->getContext());
  inside.setInsertionPointToEnd(&block);
  OperationState state(op->getLoc(), op->getName(), block.getArguments(), one(op->getResult(0)),
                       op->getAttrs());
  DenseElementsAttr folded = folding::fold(inside.create(state), ones);
  return folded ? *folded.value_begin<Attribute>() : Attribute();
}

/// Whether zeros in operands make zeros of the result, as the op's rule says.
static bool keepsZeros(Operation *op, ArrayRef<Attribute> numbers) {
  ShardingRule rule = cast<ShardingRuleOpInterface>(op).getShardingRule();
  auto isZeroOperand = [&](int64_t operand) { return isZero(numbers[operand]); };
  if (rule.linear.empty())
    return false;
  return rule.additive ? llvm::all_of(rule.linear, isZeroOperand)
                       : llvm::any_of(rule.linear, isZeroOperand);
}

namespace {
/// Finds what values are for the experts that are not chosen.
class Finder {
public:
  explicit Finder(const Choice &choice) : choice(choice) {}
  Attribute find(Value value, Place place, unsigned depth = 0);

private:
  Attribute compute(Value value, Place place, unsigned depth);
  Attribute compute(Operation *op, ArrayRef<Place> places, unsigned depth);
  /// Whether a line of scores is -inf for the experts that are not chosen. Others are finite.
  bool isLowest(nn::SoftmaxOp op, Place place, unsigned depth);
  /// Returns the result of a comparison of experts with chosen ones; null for others.
  Attribute compare(nn::CompareOp op, ArrayRef<Place> places);

  const Choice &choice;
  DenseMap<Value, SmallVector<std::pair<Place, Attribute>, 1>> known;
};
} // namespace

bool Finder::isLowest(nn::SoftmaxOp op, Place place, unsigned depth) {
  if (place.expert != 1 || tensor(op.getResult()).getShape().back() != choice.experts)
    return false;
  auto score = dyn_cast_or_null<FloatAttr>(find(op.getInput(), place, depth + 1));
  return score && score.getValue().isInfinity() && score.getValue().isNegative();
}

Attribute Finder::compare(nn::CompareOp op, ArrayRef<Place> places) {
  bool isEqual = op.getPredicate() == nn::Predicate::EQ;
  if (!isEqual && op.getPredicate() != nn::Predicate::NE)
    return {};
  for (unsigned side : {0, 1})
    if (isOfChosen(choice, op->getOperand(side), places[side], 0) &&
        isOfExpert(choice, op->getOperand(1 - side), places[1 - side], 0))
      return BoolAttr::get(op.getContext(), !isEqual);
  return {};
}

Attribute Finder::compute(Operation *op, ArrayRef<Place> places, unsigned depth) {
  if (auto comparison = dyn_cast<nn::CompareOp>(op))
    if (Attribute number = compare(comparison, places))
      return number;
  SmallVector<Attribute> numbers;
  for (auto [operand, place] : llvm::zip(op->getOperands(), places))
    numbers.push_back(find(operand, place, depth + 1));
  if (isa<nn::SelectOp>(op) && numbers[0])
    return numbers[isZero(numbers[0]) ? 2 : 1];
  if (isa<ElementwiseOpInterface>(op) && !numbers.empty() &&
      !llvm::is_contained(numbers, Attribute()))
    return evaluate(op, numbers);
  if (isa<ElementMoveOpInterface>(op) && !isa<nn::PadOp, nn::CastOp>(op) && numbers.size() == 1)
    return numbers[0];
  Type element = tensor(op->getResult(0)).getElementType();
  return keepsZeros(op, numbers) ? Builder(op->getContext()).getZeroAttr(element) : Attribute();
}

Attribute Finder::compute(Value value, Place place, unsigned depth) {
  if (DenseElementsAttr constant = constantOf(value))
    return constant.isSplat() ? constant.getSplatValue<Attribute>() : Attribute();
  auto result = dyn_cast<OpResult>(value);
  if (!result || depth == kDepth)
    return {};
  Operation *op = result.getOwner();
  if (isa<nn::ReshapeOp>(op))
    return find(op->getOperand(0), place, depth + 1);
  Attribute zero = Builder(op->getContext()).getZeroAttr(tensor(value).getElementType());
  if (place.token != 0 && place.expert != 0) {
    if (auto scatter = dyn_cast<nn::GatherNdGradOp>(op);
        scatter && scattersChosen(choice, scatter, place))
      return zero;
    if (auto softmax = dyn_cast<nn::SoftmaxOp>(op))
      return isLowest(softmax, place, depth) ? zero : Attribute();
  } else if (!isa<nn::BroadcastOp>(op)) {
    return {}; // the same for all experts or tokens, so a constant if it is known
  }
  std::optional<SmallVector<Place>> places = placesOfOperands(choice, result, place);
  return places ? compute(op, *places, depth) : Attribute();
}

Attribute Finder::find(Value value, Place place, unsigned depth) {
  for (auto [at, number] : known.lookup(value))
    if (at == place)
      return number;
  Attribute number = compute(value, place, depth);
  known[value].push_back({place, number});
  return number;
}

bool recover::isUnchosenZero(const Choice &choice, Value value, Place place) {
  return isZero(Finder(choice).find(value, place));
}
