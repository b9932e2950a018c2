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

Value Scatter::replaced(Value hit, Value value) { return node.select(hit, value, data); }

/// If the indices are known: makes those out of range (-1) that a later equal index overwrites, as
/// ONNX Runtime does. ONNX leaves open which of several equal indices wins.
Value Scatter::withoutOverwritten() {
  DenseElementsAttr attr = node.building.constantOf(indices);
  if (!attr)
    return indices;
  auto type = Node::type(indices);
  int64_t length = tuple(), tuples = attr.getNumElements() / std::max<int64_t>(length, 1);
  int64_t perBatch =
      tuples / std::max<int64_t>(llvm::product_of(type.getShape().take_front(batch)), 1);
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
  if (how != Combine::Replace || batch != 0 || Node::type(indices).getRank() != tuple() + 1 ||
      !attr)
    return false;
  std::optional<TupleGrid> grid = gridOf(attr);
  if (!grid)
    return false;
  for (int64_t k = 0; k < tuple(); ++k)
    if (grid->first[k] < 0 || grid->steps[k] != 1 ||
        grid->along[k] != (Node::type(indices).getDimSize(k) == 1 ? -1 : k))
      return false;
  first.assign(grid->first.begin(), grid->first.end());
  return true;
}

/// Returns `whole` with `part` at place `first`, from dimension `dim` on; earlier ones are equal.
Value Scatter::assigned(Value whole, Value part, ArrayRef<int64_t> first, size_t dim) {
  if (!whole || dim == first.size())
    return whole ? part : Value();
  auto type = Node::type(whole);
  int64_t begin = first[dim], end = begin + Node::type(part).getDimSize(dim);
  Value inside = assigned(node.part(whole, dim, begin, end), part, first, dim + 1);
  Value after = node.part(whole, dim, end, type.getDimSize(dim));
  return node.joined({node.part(whole, dim, 0, begin), inside, after}, dim);
}

Value Scatter::sparse() {
  Value sum = node.create<nn::GatherNdGradOp>(data.getType(), indices, updates, batch);
  if (how == Combine::Add)
    return node.add(data, sum);
  Value count =
      node.create<nn::GatherNdGradOp>(data.getType(), indices, node.like(updates, 1), batch);
  return replaced(node.binary(count, 0, nn::Predicate::GT), sum);
}

/// Compares each place with each index: [batches, R, n, I].
Value Scatter::dense() {
  auto type = Node::type(data), at = Node::type(indices);
  ArrayRef<int64_t> looked = type.getShape().slice(batch, tuple());
  int64_t batches = llvm::product_of(type.getShape().take_front(batch)),
          rows = llvm::product_of(looked),
          inner = llvm::product_of(type.getShape().drop_front(batch + tuple())),
          tuples = llvm::product_of(at.getShape().drop_back().drop_front(batch));
  if (rows > 0 && tuples > 0 && inner > 0 && batches > kMaxPairs / rows / tuples / inner)
    return node.error("a scatter of {} by {} would compare too many pairs of an element and an "
                      "index; use floats with reduction none or add",
                      type, at);
  // Tuples become numbers of rows.
  SmallVector<int64_t> strides(tuple(), 1);
  for (int64_t k = tuple() - 1; k-- > 0;)
    strides[k] = strides[k + 1] * looked[k + 1];
  Value row = node.mul(node.cast(indices, node.builder.getI64Type()), node.constant(strides));
  row = node.sum(row, {at.getRank() - 1}, false);
  SmallVector<int64_t> all = {batches, rows, tuples, inner};
  auto flat = [&](Value value, ArrayRef<int64_t> shape) {
    return node.broadcast(node.reshape(value, shape), all);
  };
  Value place = node.iota(all, 1);
  Value hit = node.binary(place, flat(row, {batches, 1, tuples, 1}), nn::Predicate::EQ);
  bool truth = type.getElementType().isInteger(1);
  Type element = truth ? Type(node.builder.getI32Type()) : type.getElementType();
  Value value = flat(node.cast(updates, element), {batches, 1, tuples, inner});
  constexpr double most = std::numeric_limits<double>::infinity();
  auto [kind, neutral] = how == Combine::Mul   ? std::pair(nn::ReduceKind::Prod, 1.0)
                         : how == Combine::Max ? std::pair(nn::ReduceKind::Max, -most)
                         : how == Combine::Min ? std::pair(nn::ReduceKind::Min, most)
                                               : std::pair(nn::ReduceKind::Sum, 0.0);
  // Whole numbers have no infinity, but the element that is there already changes no extreme.
  bool isOpen = std::isinf(neutral) && !isa<FloatType>(element);
  Value other = isOpen ? flat(data, {batches, rows, 1, inner}) : node.like(value, neutral);
  Value chosen = node.select(hit, value, other);
  Value found = node.reshape(node.reduce(kind, chosen, {2}, false), type.getShape());
  Value count =
      node.reduce(nn::ReduceKind::Max, node.cast(hit, node.builder.getI32Type()), {2}, false);
  Value any = node.binary(node.reshape(count, type.getShape()), 0, nn::Predicate::NE);
  if (truth)
    found = node.binary(found, 0, nn::Predicate::NE);
  else if (how == Combine::Add)
    found = node.add(data, found);
  else if (how == Combine::Mul)
    found = node.mul(data, found);
  else if (how == Combine::Max)
    found = node.max(data, found);
  else if (how == Combine::Min)
    found = node.min(data, found);
  return replaced(any, found);
}

Value Scatter::build() {
  Type element = Node::type(data).getElementType(), other = Node::type(updates).getElementType();
  if (element != other)
    return node.error("data and updates have element types {} and {}", element, other);
  if (element.isInteger(1) && how != Combine::Replace)
    return node.error("cannot combine truth values");
  if (how == Combine::Replace)
    indices = withoutOverwritten();
  SmallVector<int64_t> first;
  if (isBox(first))
    return assigned(data, updates, first, 0);
  bool sums = how == Combine::Replace || how == Combine::Add;
  return sums && isa<FloatType>(element) ? sparse() : dense();
}

/// Reads how updates are combined with the data.
static Combine readCombine(Node &node) {
  SmallVector<StringRef> names{"none", "add", "mul", "max", "min"}; // in the order of Combine
  return Combine(llvm::find(names, node.choiceAttr("reduction", names)) - names.begin());
}

static Value importScatterNd(Node &node) {
  Scatter scatter{node, node.input(0), node.input(1), node.input(2), 0, readCombine(node)};
  auto type = Node::type(scatter.data), at = Node::type(scatter.indices);
  if (!areIndices(scatter.indices) || at.getRank() < 1 || at.getShape().back() < 1 ||
      at.getShape().back() > type.getRank())
    return node.error("index tuples {} do not fit {}", at, type);
  int64_t tuple = at.getShape().back();
  SmallVector<int64_t> wanted(at.getShape().drop_back());
  llvm::append_range(wanted, type.getShape().drop_front(tuple));
  if (Node::type(scatter.updates).getShape() != ArrayRef<int64_t>(wanted))
    return node.error("updates {} do not fit {} and {}", scatter.updates, type, at);
  scatter.indices = wrapped(node, scatter.indices, type.getShape().take_front(tuple), {},
                            /*isRead=*/false);
  return scatter.indices && !node.hasFailed() ? scatter.build() : Value();
}

/// One element of each line along the axis for each index of the line. All other dimensions are
/// batch dimensions; lines without indices keep their elements.
static Value importScatterElements(Node &node) {
  Value whole = node.input(0), updates = node.input(2);
  auto type = Node::type(whole), at = Node::type(node.input(1));
  int64_t rank = type.getRank(), axis = node.axis();
  Combine how = readCombine(node);
  if (node.hasFailed())
    return {};
  if (!areIndices(node.input(1)) || !fitLines(at, type, axis) ||
      Node::type(updates).getShape() != at.getShape())
    return node.error("indices {} and updates {} do not fit {}", at, updates, type);
  Lines lines(type, at.getShape(), axis);
  Value part = node.slice(whole, lines.starts, lines.limits, lines.strides);
  Value indices = wrapped(node, node.input(1), {type.getDimSize(axis)}, {}, /*isRead=*/false);
  if (!indices || !part)
    return {};
  Value data = node.transpose(part, lines.perm);
  updates = node.transpose(updates, lines.perm);
  indices = lines.tuples(node, indices);
  if (!data || !updates || !indices)
    return {};
  Value result =
      node.transpose(Scatter{node, data, indices, updates, rank - 1, how}.build(), lines.back);
  if (!result || result.getType() == type)
    return result;
  Value mine = node.constant(Node::type(result).clone(node.builder.getI1Type()), 1);
  mine = node.padded(mine, type.getShape());
  return node.select(mine, node.padded(result, type.getShape()), whole);
}

void onnx::registerScatterOps(HandlerRegistry &r) {
  r.add("", "ScatterND", 11, importScatterNd, needs(3));
  r.add("", "ScatterElements", 11, importScatterElements, needs(3) | defaultAxis(0));
  r.add("", "Scatter", 9, importScatterElements, needs(3) | defaultAxis(0));
}
