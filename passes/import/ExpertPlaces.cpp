//===- ExpertPlaces.cpp - Where tensors have tokens and experts -----------===//
#include "passes/import/ExpertPlaces.h"
#include "dialects/interfaces/Interfaces.h"
#include "passes/import/Matchers.h"

using namespace mlir;
using namespace shale;
using namespace shale::recover;

std::optional<Choice> Choice::of(nn::TopKOp sort) {
  RankedTensorType indices = tensor(sort.getIndices());
  int64_t experts = tensor(sort.getInput()).getShape().back(), chosen = indices.getShape().back();
  if (chosen < 1 || chosen >= experts || indices.getNumElements() < 2 * chosen)
    return std::nullopt;
  return Choice{sort.getIndices(), indices.getNumElements() / chosen, experts, chosen};
}

int64_t recover::strideOf(ArrayRef<int64_t> shape, int64_t dim) {
  int64_t stride = 1;
  for (int64_t size : shape.drop_front(dim + 1))
    stride *= size;
  return stride;
}

namespace {
/// The elements between neighbors, and behind the last item, of a dimension or of items.
struct Span {
  int64_t stride, end;

  bool overlaps(const Span &other) const { return stride < other.end && other.stride < end; }
  /// Whether this is one of the factors of which the other one is a product.
  bool divides(const Span &other) const {
    return stride >= other.stride && end <= other.end && stride % other.stride == 0 &&
           other.end % end == 0;
  }
};
} // namespace

static Span dimSpan(ArrayRef<int64_t> shape, int64_t dim) {
  int64_t stride = strideOf(shape, dim);
  return {stride, stride * shape[dim]};
}

bool recover::countsTokens(const Choice &choice, ArrayRef<int64_t> shape, int64_t dim,
                           Place place) {
  return place.token != 0 && shape[dim] != 1 &&
         dimSpan(shape, dim).overlaps({place.token, place.token * choice.tokens});
}

bool recover::countsExperts(const Choice &choice, ArrayRef<int64_t> shape, int64_t dim,
                            Place place) {
  return place.expert != 0 && shape[dim] != 1 &&
         dimSpan(shape, dim).overlaps({place.expert, place.expert * choice.experts});
}

std::optional<SmallVector<int64_t>> recover::chosenShape(const Choice &choice,
                                                         ArrayRef<int64_t> shape, Place place) {
  Span token{place.token, place.token * choice.tokens},
      expert{place.expert, place.expert * choice.experts};
  if (place.token && place.expert && token.overlaps(expert))
    return std::nullopt;
  SmallVector<int64_t> chosen(shape);
  int64_t tokens = 1, experts = 1;
  for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim) {
    Span span = dimSpan(shape, dim);
    if (countsExperts(choice, shape, dim, place)) {
      if (!expert.divides(span))
        return std::nullopt;
      chosen[dim] /= choice.experts;
      experts *= choice.experts;
    }
    if (countsTokens(choice, shape, dim, place)) {
      if (!token.divides(span) && !span.divides(token))
        return std::nullopt;
      tokens *= std::min(token.end, span.end) / std::max(token.stride, span.stride);
      // The choices of a token are next to each other.
      if (span.stride <= token.stride)
        chosen[dim] *= choice.chosen;
    }
  }
  if ((place.token && tokens != choice.tokens) || (place.expert && experts != choice.experts))
    return std::nullopt;
  return chosen;
}

/// Returns the dimension of a tensor that is just this factor, -1 if the tensor lacks it, and none
/// if it is a part of a dimension.
static std::optional<int64_t> dimOf(const TensorFactors &dims, int64_t factor) {
  for (auto [dim, factors] : llvm::enumerate(dims))
    if (llvm::is_contained(factors, factor))
      return factors.size() == 1 ? std::optional<int64_t>(dim) : std::nullopt;
  return -1;
}

/// Moves a stride from the dimensions of the result that have the items (`dims`) to those of an
/// operand. Returns 0 if the operand lacks the items, and none if it has them otherwise.
static std::optional<int64_t> moveStride(int64_t stride, ArrayRef<int64_t> dims,
                                         const ShardingRule &rule, ArrayRef<int64_t> result,
                                         const TensorFactors &operand, ArrayRef<int64_t> shape) {
  std::optional<int64_t> moved;
  for (int64_t dim : llvm::reverse(dims)) {
    std::optional<int64_t> place = dimOf(operand, rule.results[0][dim][0]);
    if (!place)
      return std::nullopt;
    int64_t here = 0;
    if (*place >= 0) {
      if (shape[*place] != result[dim])
        return std::nullopt;
      int64_t from = strideOf(result, dim), to = strideOf(shape, *place);
      // The stride of a dimension is a multiple of those of the dimensions after it.
      if (from <= stride)
        here = stride / from * to;
      else if (to % (from / stride) == 0)
        here = to / (from / stride);
      else
        return std::nullopt;
    }
    if (moved && *moved != here)
      return std::nullopt;
    moved = here;
  }
  return moved.value_or(0);
}

std::optional<SmallVector<Place>> recover::placesOfOperands(const Choice &choice, OpResult result,
                                                            Place place) {
  Operation *op = result.getOwner();
  auto sharded = dyn_cast<ShardingRuleOpInterface>(op);
  auto stochastic = dyn_cast<StochasticOpInterface>(op);
  if (!sharded || (stochastic && stochastic.drawsRandom()) || op->getNumResults() != 1 ||
      op->getNumRegions() != 0)
    return std::nullopt;
  ShardingRule rule = sharded.getShardingRule();
  ArrayRef<int64_t> shape = tensor(result).getShape();
  SmallVector<int64_t> tokenDims, expertDims;
  for (int64_t dim = 0; dim < int64_t(shape.size()); ++dim) {
    bool isToken = countsTokens(choice, shape, dim, place),
         isExpert = countsExperts(choice, shape, dim, place);
    if (!isToken && !isExpert)
      continue;
    ArrayRef<int64_t> factors = rule.results[0][dim];
    if (factors.size() != 1 || rule.factors[factors[0]].kind != FactorKind::Parallel ||
        rule.factors[factors[0]].contiguous)
      return std::nullopt;
    if (isToken)
      tokenDims.push_back(dim);
    if (isExpert)
      expertDims.push_back(dim);
  }
  SmallVector<Place> places;
  for (auto [operand, factors] : llvm::zip(op->getOperands(), rule.operands)) {
    ArrayRef<int64_t> own = tensor(operand).getShape();
    std::optional<int64_t> token = moveStride(place.token, tokenDims, rule, shape, factors, own);
    std::optional<int64_t> expert = moveStride(place.expert, expertDims, rule, shape, factors, own);
    if (!token || !expert || !chosenShape(choice, own, {*token, *expert}))
      return std::nullopt;
    places.push_back({*token, *expert});
  }
  return places;
}
