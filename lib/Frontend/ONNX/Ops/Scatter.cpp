//===- Scatter.cpp - ScatterND and ScatterElements ------------------------===//
//
// An assignment to a slice joins slices. Floats that replace or are added elsewhere
// become sums by index tuples, whose gradient is a gather: the cost grows with the
// updates. Everything else compares each place
// with each index, as there is no op that combines by index in another way.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Gather.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Maximum number of pairs of a place and an index that are compared.
constexpr int64_t kMaxPairs = int64_t(1) << 28;

enum class Combine { Replace, Add, Mul, Max, Min };

/// A scatter into [B.., R.., I..]: index tuples [B.., n.., K] of R.., updates [B.., n.., I..].
struct Scatter {
  Node &node;
  Value data, indices, updates;
  int64_t batch;
  Combine how;

  Value build();

private:
  bool isBox(SmallVectorImpl<int64_t> &first);
  Value assigned(Value whole, Value part, ArrayRef<int64_t> first, size_t dim);
  Value sparse();
  Value dense();
  Value replaced(Value hit, Value value);
  Value withoutOverwritten();
  int64_t tuple() const { return Node::type(indices).getShape().back(); }
};

} // namespace

static int64_t product(ArrayRef<int64_t> sizes) {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

Value Scatter::replaced(Value hit, Value value) {
  return hit && value ? node.create<nn::SelectOp>(data.getType(), hit, value, data) : Value();
}

/// If the indices are known: makes those out of range (-1) that a later equal index overwrites, as
/// ONNX Runtime does. ONNX leaves open which of several equal indices wins.
Value Scatter::withoutOverwritten() {
  DenseElementsAttr attr = node.building.constantOf(indices);
  if (!attr)
    return indices;
  auto type = Node::type(indices);
  int64_t length = tuple(), tuples = attr.getNumElements() / std::max<int64_t>(length, 1);
  int64_t perBatch = tuples / std::max<int64_t>(product(type.getShape().take_front(batch)), 1);
  SmallVector<APInt> values(attr.getValues<APInt>());
  std::map<SmallVector<int64_t>, int64_t> last;
  bool changed = false;
  for (int64_t i = 0; i < tuples; ++i) {
    SmallVector<int64_t> key = {i / std::max<int64_t>(perBatch, 1)};
    for (int64_t k = 0; k < length; ++k)
      key.push_back(values[i * length + k].getSExtValue());
    auto [it, fresh] = last.try_emplace(key, i);
    if (!fresh) {
      for (int64_t k = 0; k < length; ++k)
        values[it->second * length + k] = APInt(type.getElementTypeBitWidth(), -1, true);
      it->second = i;
      changed = true;
    }
  }
  if (!changed)
    return indices;
  return nn::ConstantOp::create(node.builder, node.loc, DenseElementsAttr::get(type, values));
}

/// If updates replace a box of consecutive places, an assignment to slices such as `x[:, 1:] = y`:
/// sets `first` to the box's first place.
bool Scatter::isBox(SmallVectorImpl<int64_t> &first) {
  DenseElementsAttr attr = node.building.constantOf(indices);
  ArrayRef<int64_t> shape = Node::type(indices).getShape();
  int64_t length = tuple();
  if (how != Combine::Replace || batch != 0 || int64_t(shape.size()) != length + 1 || !attr ||
      attr.getNumElements() == 0)
    return false;
  auto values = attr.getValues<APInt>();
  for (int64_t k = 0; k < length; ++k)
    first.push_back(values[k].getSExtValue());
  int64_t i = 0, inner = attr.getNumElements() / length;
  SmallVector<int64_t> strides;
  for (int64_t size : shape.drop_back())
    strides.push_back(inner /= size);
  for (const APInt &value : values) {
    int64_t k = i % length, place = i / length / strides[k] % shape[k];
    if (value.isNegative() || value.getSExtValue() != first[k] + place)
      return false;
    ++i;
  }
  return true;
}

/// Returns `whole` with `part` at place `first`, from dimension `dim` on; earlier ones are equal.
Value Scatter::assigned(Value whole, Value part, ArrayRef<int64_t> first, size_t dim) {
  if (!whole || dim == first.size())
    return whole ? part : Value();
  auto type = Node::type(whole);
  int64_t begin = first[dim], end = begin + Node::type(part).getDimSize(dim);
  auto cut = [&](int64_t start, int64_t limit) {
    SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()),
        strides(type.getRank(), 1);
    starts[dim] = start;
    limits[dim] = limit;
    return node.slice(whole, starts, limits, strides);
  };
  return node.joined({cut(0, begin), assigned(cut(begin, end), part, first, dim + 1),
                      cut(end, type.getDimSize(dim))},
                     dim);
}

Value Scatter::sparse() {
  Value sum = node.create<nn::GatherNdGradOp>(data.getType(), indices, updates, batch);
  if (how == Combine::Add)
    return node.binary<nn::AddOp>(data, sum);
  Value ones = node.constant(Node::type(updates), 1);
  Value count = node.create<nn::GatherNdGradOp>(data.getType(), indices, ones, batch);
  Value hit =
      count ? node.binary(count, node.constant(Node::type(count), 0), nn::Predicate::GT) : Value();
  return replaced(hit, sum);
}

/// Compares each place with each index: [batches, R, n, I].
Value Scatter::dense() {
  auto type = Node::type(data), at = Node::type(indices);
  ArrayRef<int64_t> looked = type.getShape().slice(batch, tuple());
  int64_t batches = product(type.getShape().take_front(batch)), rows = product(looked),
          inner = product(type.getShape().drop_front(batch + tuple())),
          tuples = product(at.getShape().drop_back().drop_front(batch));
  if (rows > 0 && tuples > 0 && inner > 0 && batches > kMaxPairs / rows / tuples / inner) {
    (void)node.error(
        "a scatter of " + Node::name(type) + " by " + Node::name(at) +
        " would compare too many pairs of an element and an index; use floats with reduction none or add");
    return {};
  }
  // Tuples become numbers of rows.
  SmallVector<int64_t> strides(tuple(), 1);
  for (int64_t k = tuple() - 1; k-- > 0;)
    strides[k] = strides[k + 1] * looked[k + 1];
  Value row = node.cast(indices, node.builder.getI64Type());
  row = node.binary<nn::MulOp>(row, node.constant(strides));
  row = node.reduce(nn::ReduceKind::Sum, row, {at.getRank() - 1}, false);
  SmallVector<int64_t> all = {batches, rows, tuples, inner};
  auto flat = [&](Value value, ArrayRef<int64_t> shape) {
    return node.broadcast(node.reshape(value, shape), all);
  };
  Value place = nn::IotaOp::create(node.builder, node.loc,
                                   RankedTensorType::get(all, node.builder.getI64Type()), 1);
  Value hit =
      row ? node.binary(place, flat(row, {batches, 1, tuples, 1}), nn::Predicate::EQ) : Value();
  bool truth = type.getElementType().isInteger(1);
  Type element = truth ? Type(node.builder.getI32Type()) : type.getElementType();
  Value value = flat(node.cast(updates, element), {batches, 1, tuples, inner});
  if (!hit || !value)
    return {};
  constexpr double most = std::numeric_limits<double>::infinity();
  auto [kind, neutral] = how == Combine::Mul   ? std::pair(nn::ReduceKind::Prod, 1.0)
                         : how == Combine::Max ? std::pair(nn::ReduceKind::Max, -most)
                         : how == Combine::Min ? std::pair(nn::ReduceKind::Min, most)
                                               : std::pair(nn::ReduceKind::Sum, 0.0);
  // Whole numbers have no infinity, but the element that is there already changes no extreme.
  Value other = std::isinf(neutral) && !isa<FloatType>(element)
                    ? flat(data, {batches, rows, 1, inner})
                    : node.constant(Node::type(value), neutral);
  Value chosen = other ? node.create<nn::SelectOp>(value.getType(), hit, value, other) : Value();
  Value found = node.reshape(node.reduce(kind, chosen, {2}, false), type.getShape());
  Value count =
      node.reduce(nn::ReduceKind::Max, node.cast(hit, node.builder.getI32Type()), {2}, false);
  count = node.reshape(count, type.getShape());
  Value any =
      count ? node.binary(count, node.constant(Node::type(count), 0), nn::Predicate::NE) : Value();
  if (!found || !any)
    return {};
  if (truth)
    found = node.binary(found, node.constant(Node::type(found), 0), nn::Predicate::NE);
  else if (how == Combine::Add)
    found = node.binary<nn::AddOp>(data, found);
  else if (how == Combine::Mul)
    found = node.binary<nn::MulOp>(data, found);
  else if (how == Combine::Max)
    found = node.binary<nn::MaxOp>(data, found);
  else if (how == Combine::Min)
    found = node.binary<nn::MinOp>(data, found);
  return replaced(any, found);
}

Value Scatter::build() {
  auto type = Node::type(data);
  if (type.getElementType() != Node::type(updates).getElementType()) {
    (void)node.error("data and updates have element types " + Node::name(type.getElementType()) +
                     " and " + Node::name(Node::type(updates).getElementType()));
    return {};
  }
  if (type.getElementType().isInteger(1) && how != Combine::Replace) {
    (void)node.error("cannot combine truth values");
    return {};
  }
  if (how == Combine::Replace)
    indices = withoutOverwritten();
  SmallVector<int64_t> first;
  if (isBox(first))
    return assigned(data, updates, first, 0);
  bool sums = how == Combine::Replace || how == Combine::Add;
  return sums && isa<FloatType>(type.getElementType()) ? sparse() : dense();
}

static LogicalResult readCombine(Node &node, Combine &how) {
  std::string name = node.stringAttr("reduction", "none");
  std::optional<Combine> found = llvm::StringSwitch<std::optional<Combine>>(name)
                                     .Case("none", Combine::Replace)
                                     .Case("add", Combine::Add)
                                     .Case("mul", Combine::Mul)
                                     .Case("max", Combine::Max)
                                     .Case("min", Combine::Min)
                                     .Default(std::nullopt);
  if (!found)
    return node.error("reduction '" + displayName(name) +
                      "' is not one of none, add, mul, max, min");
  how = *found;
  return success();
}

static bool areIndices(Value value) {
  Type element = Node::type(value).getElementType();
  return element.isInteger(64) || element.isInteger(32);
}

static LogicalResult importScatterNd(Node &node) {
  Scatter scatter{node, node.input(0), node.input(1), node.input(2), 0, Combine::Replace};
  if (failed(node.require(3)) || failed(readCombine(node, scatter.how)))
    return failure();
  auto type = Node::type(scatter.data), at = Node::type(scatter.indices);
  if (!areIndices(scatter.indices) || at.getRank() < 1 || at.getShape().back() < 1 ||
      at.getShape().back() > type.getRank())
    return node.error("index tuples " + Node::name(at) + " do not fit " + Node::name(type));
  int64_t tuple = at.getShape().back();
  SmallVector<int64_t> wanted(at.getShape().drop_back());
  llvm::append_range(wanted, type.getShape().drop_front(tuple));
  if (Node::type(scatter.updates).getShape() != ArrayRef<int64_t>(wanted))
    return node.error("updates " + Node::name(scatter.updates.getType()) + " do not fit " +
                      Node::name(type) + " and " + Node::name(at));
  scatter.indices = wrapped(node, scatter.indices, type.getShape().take_front(tuple), {},
                            /*isRead=*/false);
  if (!scatter.indices)
    return failure();
  Value result = scatter.build();
  if (!result)
    return failure();
  node.set(0, result);
  return success();
}

/// One element of each line along the axis for each index of the line. All other dimensions are
/// batch dimensions; lines without indices keep their elements.
static LogicalResult importScatterElements(Node &node) {
  Scatter scatter{node, node.input(0), node.input(1), node.input(2), 0, Combine::Replace};
  if (failed(node.require(3)) || failed(readCombine(node, scatter.how)))
    return failure();
  auto type = Node::type(scatter.data), at = Node::type(scatter.indices);
  int64_t rank = type.getRank(), axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, rank)))
    return failure();
  bool fits = areIndices(scatter.indices) && at.getRank() == rank &&
              Node::type(scatter.updates).getShape() == at.getShape();
  for (int64_t i = 0; fits && i < rank; ++i)
    fits = i == axis || at.getDimSize(i) <= type.getDimSize(i);
  if (!fits)
    return node.error("indices " + Node::name(at) + " and updates " +
                      Node::name(scatter.updates.getType()) + " do not fit " + Node::name(type));
  Lines lines(type, at.getShape(), axis);
  Value whole = scatter.data;
  Value part = node.slice(whole, lines.starts, lines.limits, lines.strides);
  scatter.indices = wrapped(node, scatter.indices, {type.getDimSize(axis)}, {}, /*isRead=*/false);
  if (!scatter.indices || !part)
    return failure();
  scatter.data = node.transpose(part, lines.perm);
  scatter.updates = node.transpose(scatter.updates, lines.perm);
  scatter.indices = lines.tuples(node, scatter.indices);
  if (!scatter.data || !scatter.updates || !scatter.indices)
    return failure();
  scatter.batch = rank - 1;
  Value result = scatter.build();
  result = result ? node.transpose(result, lines.back) : Value();
  if (result && Node::type(result) != type) {
    auto truth = Node::type(result).clone(node.builder.getI1Type());
    Value mine = node.padded(node.constant(cast<RankedTensorType>(truth), 1), type.getShape());
    result = node.padded(result, type.getShape());
    result = mine && result ? node.create<nn::SelectOp>(type, mine, result, whole) : Value();
  }
  if (!result)
    return failure();
  node.set(0, result);
  return success();
}

void onnx::registerScatterOps(HandlerRegistry &r) {
  r.add("", "ScatterND", 11, importScatterNd);
  r.add("", "ScatterElements", 11, importScatterElements);
  r.add("", "Scatter", 9, importScatterElements);
}
