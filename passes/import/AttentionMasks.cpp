//===- AttentionMasks.cpp - Masks of attention scores ---------------------===//
//
// A mask is an addition (of 0 or a large negative number) or a select between a
// score and such a number. It comes from constants (causal), from data (padding),
// or from both. The parts are separated, so that a causal mask or a window with
// padding does not become a tensor of all pairs. If every score of a row may be hidden, it
// matters which number hides them, and which part does: then parts with finite
// numbers stay together.
//
//===----------------------------------------------------------------------===//
#include "passes/import/AttentionMasks.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Matmul.h"
#include "dialects/nn/Ops/State.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::recover;

namespace {
/// A score below this counts as hidden: exp underflows in both f32 and f64 for all
/// scores that occur in models.
constexpr double kHidden = -9e3;
} // namespace

/// Whether `number` is the lowest finite number of f32, bf16 or f16.
static bool isLowest(double number) {
  for (const llvm::fltSemantics *type :
       {&APFloat::IEEEsingle(), &APFloat::BFloat(), &APFloat::IEEEhalf()}) {
    APFloat lowest = APFloat::getLargest(*type, /*Negative=*/true);
    bool inexact;
    lowest.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
    if (lowest.convertToDouble() == number)
      return true;
  }
  return false;
}

namespace {
/// Finds the band of distances that a mask shows.
class BandFinder {
public:
  BandFinder(int64_t rows, int64_t columns)
      : zero(rows - 1), hidden(rows + columns - 1), shown(rows + columns - 1) {}

  /// Records an element by row - column.
  void visit(int64_t difference, bool isHidden) {
    int64_t at = difference + int64_t(hidden.size()) - 1 - zero;
    (isHidden ? hidden : shown)[at] = true;
  }

  /// Returns the band; none if it is empty at distance 0, or hides only some of a distance.
  std::optional<Band> find() const {
    int64_t low = zero, high = zero, last = hidden.size() - 1;
    while (low > 0 && !hidden[low - 1])
      --low;
    while (high < last && !hidden[high + 1])
      ++high;
    for (int64_t i = 0; i <= last; ++i)
      if (i < low || i > high ? shown[i] : hidden[i])
        return std::nullopt;
    return Band{low == 0 ? -Band::kFar : low - zero, high == last ? Band::kFar : high - zero};
  }

private:
  int64_t zero; ///< the number of distance 0
  std::vector<bool> hidden, shown;
};
} // namespace

/// Makes the mask a band if it is one.
static void takeBand(ConstantMask &mask, const BandFinder &finder) {
  std::optional<Band> band = finder.find();
  if (!band)
    return;
  mask.kind = ConstantMask::Banded;
  mask.band = *band;
}

static ConstantMask classifyConstant(DenseElementsAttr attr, int64_t queries, int64_t keys) {
  ConstantMask mask;
  ArrayRef<int64_t> shape = attr.getType().getShape();
  int64_t rank = shape.size();
  int64_t rows = rank >= 2 ? shape[rank - 2] : 1, columns = rank >= 1 ? shape[rank - 1] : 1;
  if (attr.getNumElements() == 0 || (rows != queries && rows != 1) ||
      (columns != keys && columns != 1))
    return mask;
  // `hidden`: the element hides its score; `zero`: it adds nothing.
  bool nothing = true, plain = true, rowAll = true;
  BandFinder finder(rows, columns);
  int64_t index = 0;
  auto visit = [&](bool hidden, bool zero, bool infinite) {
    int64_t column = index % columns, row = (index / columns) % rows;
    finder.visit(row - column, hidden);
    nothing &= !hidden;
    plain &= hidden || zero;
    rowAll &= hidden;
    mask.infinite &= !hidden || infinite;
    if (column == columns - 1) {
      mask.hidesRows |= rowAll;
      rowAll = true;
    }
    ++index;
  };
  auto visitNumber = [&](double value) { visit(value <= kHidden, value == 0, std::isinf(value)); };
  ArrayRef<char> raw = attr.getRawData();
  if (attr.getElementType().isF32() && !attr.isSplat() &&
      int64_t(raw.size()) == 4 * attr.getNumElements()) {
    for (int64_t i = 0; i < attr.getNumElements(); ++i) {
      float value;
      std::memcpy(&value, &raw[4 * i], 4);
      visitNumber(value);
    }
  } else if (attr.getElementType().isInteger(1)) {
    for (bool shown : attr.getValues<bool>())
      visit(!shown, true, true);
  } else {
    for (const APFloat &number : attr.getValues<APFloat>()) {
      APFloat wide = number;
      bool inexact;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
      visitNumber(wide.convertToDouble());
    }
  }
  mask.kind = nothing && plain ? ConstantMask::Nothing : ConstantMask::Other;
  if (!nothing && plain && rows == queries && columns == keys && !mask.hidesRows)
    takeBand(mask, finder);
  return mask;
}

namespace {
/// A table that masks scores.
struct TableMask {
  SmallVector<bool> hidden; ///< for each element, whether it hides a score
  bool plain = true;        ///< elements that hide nothing add nothing
  bool infinite = true;     ///< elements that hide a score are -inf
};
} // namespace

static TableMask readTable(DenseElementsAttr table, bool negated) {
  TableMask mask;
  if (table.getElementType().isInteger(1)) {
    for (bool shown : table.getValues<bool>())
      mask.hidden.push_back(shown == negated);
    return mask;
  }
  for (APFloat number : table.getValues<APFloat>()) {
    bool inexact;
    number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
    double value = number.convertToDouble();
    mask.hidden.push_back(value <= kHidden);
    mask.plain &= value <= kHidden || value == 0;
    mask.infinite &= value > kHidden || std::isinf(value);
  }
  return mask;
}

/// Whether a mask hides all keys of some query. `factors`: of the query's and the key's position.
static bool hidesRow(const TableMask &mask, int64_t low, std::pair<int64_t, int64_t> factors,
                     int64_t queries, int64_t keys) {
  // Entries are visited in order of `t`; shown[i] counts those before entry i that are shown.
  SmallVector<int64_t> shown{0};
  for (bool hidden : mask.hidden)
    shown.push_back(shown.back() + !hidden);
  auto [query, key] = factors;
  if (std::abs(key) > 1) // the keys of a query are not neighbours in the table
    return llvm::is_contained(mask.hidden, true);
  for (int64_t row = 0; row < (query == 0 ? 1 : queries); ++row) {
    int64_t first = query * row - low, last = first + key * (keys - 1);
    if (first > last)
      std::swap(first, last);
    if (shown[last + 1] == shown[first])
      return true;
  }
  return false;
}

/// Classifies a mask [.., T, S] that depends on positions alone.
static ConstantMask classifyForm(const PositionForm &form, RankedTensorType type, bool negated,
                                 int64_t queries, int64_t keys) {
  ConstantMask mask;
  int64_t rank = type.getRank();
  int64_t rows = rank >= 2 ? type.getDimSize(rank - 2) : 1;
  int64_t columns = rank >= 1 ? type.getDimSize(rank - 1) : 1;
  if ((rows != queries && rows != 1) || (columns != keys && columns != 1))
    return mask;
  TableMask table = readTable(form.table, negated);
  mask.infinite = table.infinite;
  ArrayRef<int64_t> direction = form.direction;
  bool isBatched = llvm::any_of(direction.drop_back(std::min<int64_t>(rank, 2)),
                                [](int64_t factor) { return factor != 0; });
  bool hides = llvm::is_contained(table.hidden, true);
  std::pair<int64_t, int64_t> factors{rank >= 2 ? direction[rank - 2] : 0,
                                      rank >= 1 ? direction[rank - 1] : 0};
  mask.hidesRows = hides && (isBatched || hidesRow(table, form.low, factors, rows, columns));
  mask.kind = hides || !table.plain ? ConstantMask::Other : ConstantMask::Nothing;
  if (hides && table.plain && !isBatched && factors == std::pair<int64_t, int64_t>(1, -1) &&
      rows == queries && columns == keys && !mask.hidesRows) {
    BandFinder finder(rows, columns);
    for (auto [i, hidden] : llvm::enumerate(table.hidden))
      finder.visit(form.low + int64_t(i), hidden);
    takeBand(mask, finder);
  }
  return mask;
}

std::optional<ConstantMask> MaskCache::classify(Value value, bool isNegated, int64_t queries,
                                                int64_t keys) {
  if (DenseElementsAttr attr = constantOf(value); attr && !attr.isSplat()) {
    if (isNegated)
      attr = negated(attr);
    auto [it, fresh] = known.try_emplace(std::make_tuple(attr.getAsOpaquePointer(), queries, keys));
    if (fresh)
      it->second = classifyConstant(attr, queries, keys);
    return it->second;
  }
  std::optional<PositionForm> form = forms.of(value);
  if (!form)
    return std::nullopt;
  return classifyForm(*form, tensor(value), isNegated, queries, keys);
}

DenseElementsAttr MaskCache::negated(DenseElementsAttr attr) {
  DenseElementsAttr &result = negations[attr.getAsOpaquePointer()];
  if (!result) {
    SmallVector<bool> values;
    for (bool value : attr.getValues<bool>())
      values.push_back(!value);
    result = attr.isSplat()
                 ? DenseElementsAttr::get(attr.getType(), bool(!attr.getSplatValue<bool>()))
                 : DenseElementsAttr::get(attr.getType(), values);
  }
  return result;
}

/// Strips broadcasts whose input dimensions are the trailing ones of the result.
static Value behindBroadcast(Value value) {
  while (auto broadcast = value.getDefiningOp<nn::BroadcastOp>()) {
    int64_t rank = tensor(value).getRank(), inner = tensor(broadcast.getInput()).getRank();
    for (int64_t i = 0; i < inner; ++i)
      if (broadcast.getDims()[i] != rank - inner + i)
        return value;
    value = broadcast.getInput();
  }
  return value;
}

/// Whether a float value depends on a parameter through float values.
static bool mayHaveGradient(Value value) {
  SmallVector<Value> work{value};
  llvm::DenseSet<Value> seen;
  while (!work.empty()) {
    Value next = work.pop_back_val();
    if (!isa<FloatType>(tensor(next).getElementType()) || !seen.insert(next).second)
      continue;
    if (Operation *op = next.getDefiningOp()) {
      llvm::append_range(work, op->getOperands());
      continue;
    }
    auto argument = cast<BlockArgument>(next);
    auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
    auto symbol = function ? function.getArgAttrOfType<FlatSymbolRefAttr>(argument.getArgNumber(),
                                                                          nn::kStateAttr)
                           : FlatSymbolRefAttr();
    auto module = symbol ? function->getParentOfType<ModuleOp>() : ModuleOp();
    auto state = module ? module.lookupSymbol<nn::StateOp>(symbol.getValue()) : nn::StateOp();
    if (symbol && (!state || state.getRole() == nn::Role::Param))
      return true;
  }
  return false;
}

namespace {

/// A condition that holds for the keys of a band.
struct BandCondition {
  Band band;
  Value source;
  bool negated;
};

/// Strips the ops that mask scores, outermost first.
class Layers {
public:
  Layers(Value scores, bool guarded, MaskCache &cache, PatternRewriter &rewriter)
      : guarded(guarded), cache(cache), rewriter(rewriter), loc(scores.getLoc()),
        queries(tensor(scores).getDimSize(2)), keys(tensor(scores).getDimSize(3)) {}

  std::optional<MaskedScores> peel(Value scores);

private:
  bool leadsToMatmul(Value value, int depth = 0) const;
  bool takeSum(nn::AddOp sum, Value &scores);
  bool takeChoice(nn::SelectOp choice, Value &scores);
  bool takeAdded(Value added);
  bool takeHidden(Value condition, bool negated, double hidden, bool added);
  bool takeInfinite(Value condition, bool negated);
  Value rank4(Value value);
  Value withSign(Value value, bool negated);
  Value joined(Value a, Value b, bool sum);
  void takeBands();

  bool guarded;
  MaskCache &cache;
  PatternRewriter &rewriter;
  Location loc;
  int64_t queries, keys;
  MaskedScores result;
  SmallVector<Value> conditions; ///< a score is -inf unless all of them hold
  SmallVector<BandCondition> bands;
  Value finite;             ///< the condition of `result.hidden`
  Band finiteBand;          ///< of constant masks with finite numbers
  bool addsOutside = false; ///< whether a mask is added after the one with `finite`
  bool hidesInside = false; ///< whether scores become -inf before the one with `finite`
};

} // namespace

/// Whether a chain of additions, selects and factors leads from a matmul to the value.
bool Layers::leadsToMatmul(Value value, int depth) const {
  constexpr int most = 16;
  double scale = 1;
  if (peelScale(value, scale).getDefiningOp<nn::MatmulOp>())
    return true;
  if (depth == most)
    return false;
  if (auto sum = value.getDefiningOp<nn::AddOp>())
    return leadsToMatmul(sum.getLhs(), depth + 1) || leadsToMatmul(sum.getRhs(), depth + 1);
  if (auto choice = value.getDefiningOp<nn::SelectOp>())
    return leadsToMatmul(choice.getOnTrue(), depth + 1) ||
           leadsToMatmul(choice.getOnFalse(), depth + 1);
  return false;
}

/// Reshapes the value to rank 4 with leading sizes of 1.
Value Layers::rank4(Value value) {
  SmallVector<int64_t> shape(tensor(value).getShape());
  if (shape.size() >= 4)
    return value;
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  return nn::ReshapeOp::create(rewriter, loc, tensor(value).clone(shape), value);
}

/// Returns a boolean value or its negation.
Value Layers::withSign(Value value, bool negated) {
  if (!negated)
    return value;
  if (DenseElementsAttr attr = constantOf(value))
    return nn::ConstantOp::create(rewriter, loc, cache.negated(attr));
  return nn::NotOp::create(rewriter, loc, value.getType(), value);
}

/// Combines two masks into one, broadcast to a common shape.
Value Layers::joined(Value a, Value b, bool sum) {
  if (!a)
    return b;
  SmallVector<int64_t> shape;
  for (auto [x, y] : llvm::zip(tensor(a).getShape(), tensor(b).getShape()))
    shape.push_back(std::max(x, y));
  for (Value *each : {&a, &b})
    if (tensor(*each).getShape() != ArrayRef<int64_t>(shape))
      *each = nn::BroadcastOp::create(rewriter, loc, tensor(*each).clone(shape), *each,
                                      ArrayRef<int64_t>{0, 1, 2, 3});
  return sum ? Value(nn::AddOp::create(rewriter, loc, a.getType(), a, b))
             : Value(nn::AndOp::create(rewriter, loc, a.getType(), a, b));
}

/// Handles a condition that sets scores to -inf where it is false.
bool Layers::takeInfinite(Value condition, bool negated) {
  Value source = behindBroadcast(condition);
  Operation *op = source.getDefiningOp();
  if (auto no = dyn_cast_or_null<nn::NotOp>(op))
    return takeInfinite(no.getInput(), !negated);
  if ((isa_and_nonnull<nn::AndOp>(op) && !negated) || (isa_and_nonnull<nn::OrOp>(op) && negated))
    return takeInfinite(op->getOperand(0), negated) && takeInfinite(op->getOperand(1), negated);
  std::optional<ConstantMask> mask = cache.classify(source, negated, queries, keys);
  if (mask && mask->kind == ConstantMask::Unfit)
    return false;
  result.mayHideRows |= !mask || mask->hidesRows;
  if (mask && mask->kind == ConstantMask::Nothing)
    return true;
  if (mask && mask->kind == ConstantMask::Banded)
    bands.push_back({mask->band, source, negated});
  else
    conditions.push_back(rank4(withSign(source, negated)));
  return true;
}

/// Cuts `band` to that of a mask. Returns false if the mask has none, or attributes cannot describe
/// the result.
static bool cutBand(const ConstantMask &mask, Band &band) {
  Band both = band & mask.band;
  if (mask.kind != ConstantMask::Banded || !both.isExpressible())
    return false;
  band = both;
  return true;
}

/// Handles a condition that replaces scores by `hidden` where it is false, or with `added` adds it.
bool Layers::takeHidden(Value condition, bool negated, double hidden, bool added) {
  if (std::isnan(hidden) || hidden > 0)
    return false;
  // torch.onnx exports PyTorch's attention with a boolean mask as an addition of the lowest number
  // and a guard against NaN. PyTorch itself uses -inf: a row that sees nothing is zero. Without
  // -inf the guard would have no effect.
  if (guarded && added && isLowest(hidden))
    hidden = -std::numeric_limits<double>::infinity();
  if (std::isinf(hidden)) {
    hidesInside |= bool(finite);
    return takeInfinite(condition, negated);
  }
  Value source = behindBroadcast(condition);
  if (std::optional<ConstantMask> mask = cache.classify(source, negated, queries, keys)) {
    if (mask->kind == ConstantMask::Nothing)
      return true;
    if (hidden <= kHidden && !finite && cutBand(*mask, finiteBand))
      return true;
  }
  if (finite)
    return false;
  finite = rank4(withSign(source, negated));
  result.hidden = hidden;
  result.added = added;
  return true;
}

/// Handles a value that is added to the scores.
bool Layers::takeAdded(Value added) {
  Value source = behindBroadcast(added);
  if (auto choice = source.getDefiningOp<nn::SelectOp>()) {
    std::optional<double> yes = splatOf(choice.getOnTrue()), no = splatOf(choice.getOnFalse());
    if (yes == 0.0 && no && *no < 0)
      return takeHidden(choice.getCondition(), /*negated=*/false, *no, /*added=*/true);
    if (no == 0.0 && yes && *yes < 0)
      return takeHidden(choice.getCondition(), /*negated=*/true, *yes, /*added=*/true);
  }
  if (std::optional<ConstantMask> mask = cache.classify(source, /*negated=*/false, queries, keys)) {
    if (mask->kind == ConstantMask::Unfit)
      return false;
    if (mask->kind == ConstantMask::Nothing)
      return true;
    if (mask->infinite ? cutBand(*mask, result.band) : !finite && cutBand(*mask, finiteBand)) {
      hidesInside |= bool(finite);
      return true;
    }
    result.mayHideRows |= mask->hidesRows;
  } else {
    if (mayHaveGradient(source))
      return false;
    result.mayHideRows = true;
  }
  addsOutside |= !finite;
  result.mask = joined(result.mask, rank4(source), /*sum=*/true);
  return true;
}

bool Layers::takeSum(nn::AddOp sum, Value &scores) {
  Value left = sum.getLhs(), right = sum.getRhs();
  if (!leadsToMatmul(left))
    std::swap(left, right);
  scores = left;
  return leadsToMatmul(left) && takeAdded(right);
}

bool Layers::takeChoice(nn::SelectOp choice, Value &scores) {
  std::optional<double> yes = splatOf(choice.getOnTrue()), no = splatOf(choice.getOnFalse());
  if (!yes == !no)
    return false;
  scores = yes ? choice.getOnFalse() : choice.getOnTrue();
  return takeHidden(choice.getCondition(), /*negated=*/bool(yes), yes ? *yes : *no,
                    /*added=*/false);
}

/// Makes one band of the conditions that are bands. Bands that the attributes cannot express
/// together with the others stay conditions.
void Layers::takeBands() {
  Band all = result.band;
  for (const BandCondition &each : bands)
    all = all & each.band;
  for (const BandCondition &each : bands)
    if (all.isExpressible() || (result.band & each.band).isExpressible())
      result.band = result.band & each.band;
    else
      conditions.push_back(rank4(withSign(each.source, each.negated)));
}

std::optional<MaskedScores> Layers::peel(Value scores) {
  double scale = 1;
  while (!peelScale(scores, scale).getDefiningOp<nn::MatmulOp>()) {
    auto sum = scores.getDefiningOp<nn::AddOp>();
    auto choice = scores.getDefiningOp<nn::SelectOp>();
    if (!(sum ? takeSum(sum, scores) : choice && takeChoice(choice, scores)))
      return std::nullopt;
  }
  result.matmul = scores;
  takeBands();
  // Finite numbers hide scores just as -inf does if no row can be hidden entirely.
  if (!finiteBand.isWhole()) {
    if (result.mayHideRows || !conditions.empty() || finite ||
        !(result.band & finiteBand).isExpressible())
      return std::nullopt;
    result.band = result.band & finiteBand;
  }
  if (finite) {
    // The op masks in a fixed order: additions, finite numbers, -inf. Additions commute.
    if (!conditions.empty() || ((addsOutside || hidesInside) && !result.added))
      return std::nullopt;
    result.seen = finite;
    return result;
  }
  for (Value condition : conditions)
    result.seen = joined(result.seen, condition, /*sum=*/false);
  return result;
}

std::optional<MaskedScores> recover::peelMasks(Value scores, bool guarded, MaskCache &cache,
                                               PatternRewriter &rewriter) {
  if (tensor(scores).getRank() != 4)
    return std::nullopt;
  return Layers(scores, guarded, cache, rewriter).peel(scores);
}
