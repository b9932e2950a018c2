//===- Index.cpp - Gathers and scatters -----------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Embedding.h"
#include "dialects/nn/Ops/Gather.h"
#include "dialects/nn/Ops/Sort.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include "lib/Frontend/ONNX/Record/Signature.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/SmallBitVector.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Returns the elements of a constant of integers.
static Sizes numbersOf(DenseElementsAttr attr) {
  Sizes numbers;
  for (const APInt &value : attr.getValues<APInt>())
    numbers.push_back(value.getSExtValue());
  return numbers;
}

/// Returns a constant of the type of integers.
static Tensor constantLike(Tensor integers, ArrayRef<int64_t> numbers) {
  unsigned bits = integers.type().getElementTypeBitWidth();
  auto values = llvm::map_to_vector(
      numbers, [&](int64_t number) { return APInt(bits, number, /*isSigned=*/true); });
  return integers.node().constant(DenseElementsAttr::get(integers.type(), values));
}

/// Counts negative constant indices from the end of `sizes`; null after an error
/// if one is out of range.
static Tensor countFromEnd(Tensor indices, ArrayRef<int64_t> sizes, Tensor table) {
  Node &node = indices.node();
  DenseElementsAttr distinct = node.building.distinctOf(indices);
  if (!distinct || sizes.empty())
    return indices;
  int64_t least = *llvm::min_element(sizes);
  if (llvm::all_of(numbersOf(distinct), [&](int64_t at) { return at >= 0 && at < least; }))
    return indices; // known without the whole constant, which may be large
  DenseElementsAttr attr = node.building.constantOf(indices);
  if (!attr)
    return indices;
  Sizes values = numbersOf(attr);
  bool changed = false;
  for (auto [i, at] : llvm::enumerate(values)) {
    int64_t size = sizes[i % sizes.size()];
    if (at < -size || at >= size) { // the largest index: positions run up to a length
      std::string hint = positionsHint(node.building.context.options, node.building.states, {table},
                                       size, *llvm::max_element(numbersOf(attr)) + 1);
      return node.error(hint.empty() ? say("index {} is out of a dimension of size {}", {at, size})
                                     : hint);
    }
    changed |= at < 0;
    at += at < 0 ? size : 0;
  }
  return changed ? constantLike(indices, values) : indices;
}

/// Whether a value consists of inputs and non-negative constants that are moved but not
/// computed with: the elements of inputs are checked when they are read.
static bool isData(Node &node, Value value) {
  if (DenseElementsAttr constant = node.building.distinctOf(value))
    return llvm::none_of(constant.getValues<APInt>(),
                         [](const APInt &index) { return index.isNegative(); });
  Operation *op = value.getDefiningOp();
  return !op ||
         (isa<ElementMoveOpInterface>(op) && op->getNumOperands() > 0 &&
          llvm::all_of(op->getOperands(), [&](Value operand) { return isData(node, operand); }));
}

/// Converts negative indices, which count from the end of `sizes` (one, or one for each element of
/// the last dimension), and checks constant ones. `table` is named by the error. With `isRead` an
/// op reads the table by the indices: then programs check inputs and refuse negative ones. Returns
/// null after an error.
static Tensor wrapped(Tensor indices, ArrayRef<int64_t> sizes, Tensor table = Tensor(),
                      bool isRead = true) {
  Node &node = indices.node();
  if (node.building.distinctOf(indices))
    return countFromEnd(indices, sizes, table);
  if (isRead && isData(node, indices))
    return indices;
  auto type = indices.type();
  Tensor size = sizes.size() == 1
                    ? node.constant(type, sizes.front())
                    : node.constant(sizes).cast(type.getElementType()).broadcast(type.getShape());
  return select(indices < 0, indices + size, indices);
}

/// Returns the row that PyTorch's embedding never trains: the third operand of the node's original
/// operation. None if there is none.
static std::optional<int64_t> paddingOf(Node &node) {
  FxNode fx = readFxNode(node.proto);
  bool isEmbedding = StringRef(fx.target).starts_with((words::kEmbedding + ".").str());
  double row = isEmbedding ? fx.number(2).value_or(-1) : -1;
  return row >= 0 && row < 0x1p53 ? std::optional(int64_t(row)) : std::nullopt;
}

Tensor onnx::gatherAlong(Tensor input, Tensor indices, int64_t axis,
                         std::optional<int64_t> padding) {
  Node &node = input.node();
  Sizes others = withoutDim(input.shape(), axis);
  Sizes shape = joinedSizes(
      {input.shape().take_front(axis), indices.shape(), input.shape().drop_front(axis + 1)});
  if (!input.hasFloats() || node.building.constantOf(input)) // no gradient
    return node.create<nn::GatherOp>(input.type().clone(shape), input, indices, axis);
  // A run of positions is a slice.
  if (DenseElementsAttr attr = node.building.constantOf(indices);
      attr && attr.getNumElements() > 0 && !padding) {
    Sizes at = numbersOf(attr);
    if (llvm::equal(at, llvm::seq(at.front(), at.front() + int64_t(at.size()))))
      return input.part(axis, at.front(), at.back() + 1).reshape(shape);
  }
  // Rows of a table [V, D]: other axes are brought to the front first.
  int64_t rank = input.rank(), rows = input.dim(axis), width = rows ? input.count() / rows : 0;
  Tensor table = input.transpose(joinedSizes({{axis}, withoutDim(allDims(rank), axis)}));
  table = table.reshape({rows, width});
  if (!table)
    return {};
  auto looked = table.type().clone(joinedSizes({indices.shape(), {width}}));
  IntegerAttr row =
      padding && *padding < rows ? node.builder.getI64IntegerAttr(*padding) : IntegerAttr();
  Tensor found = node.create<nn::EmbeddingOp>(looked, table, indices, row);
  found = found.reshape(joinedSizes({indices.shape(), others}));
  // ids..., before axis, after axis -> before axis, ids..., after axis
  int64_t front = indices.rank();
  return found.transpose(joinedSizes(
      {dimRange(front, front + axis), allDims(front), dimRange(front + axis, front + rank - 1)}));
}

bool onnx::areIndices(Tensor value) {
  Type element = value.element();
  return element.isInteger(64) || element.isInteger(32);
}

/// Whether `indices` have the tensor's rank, and at most as many lines along `axis`.
static bool fitLines(Tensor indices, Tensor x, int64_t axis) {
  return indices.rank() == x.rank() && llvm::all_of(allDims(x.rank()), [&](int64_t dim) {
           return dim == axis || indices.dim(dim) <= x.dim(dim);
         });
}

Tensor onnx::lookUp(Tensor input, Tensor indices, int64_t axis, std::optional<int64_t> padding) {
  if (!areIndices(indices))
    return input.node().error("indices must be integers");
  indices = wrapped(indices, {input.dim(axis)}, input);
  return indices ? gatherAlong(input, indices, axis, padding) : Tensor();
}

static Tensor importGather(Node &node, Tensor x, Tensor ids) {
  return lookUp(x, ids, node.axis(), paddingOf(node));
}

namespace {
/// A grid of places: index k of a tuple has values from `first` on, `steps` apart.
struct TupleGrid {
  /// The dimension of the tuples' shape along which an index runs; -1 if it has one value.
  Sizes along;
  Sizes first, steps;
};
} // namespace

/// Returns the grid that constant index tuples [.., K] are, if at most one dimension of their shape
/// runs along each index; nothing if they are none, or if there are no tuples.
static std::optional<TupleGrid> gridOf(DenseElementsAttr tuples) {
  ArrayRef<int64_t> at = tuples.getType().getShape();
  int64_t length = at.back(), places = at.size() - 1, count = tuples.getNumElements();
  if (count == 0)
    return std::nullopt;
  Sizes values = numbersOf(tuples), strides(at.size(), 1); // strides of the flat list
  for (int64_t i = places; i-- > 0;)
    strides[i] = strides[i + 1] * at[i + 1];
  TupleGrid grid{Sizes(length, -1), Sizes(values.begin(), values.begin() + length),
                 Sizes(length, 1)};
  llvm::SmallBitVector taken(places);
  for (int64_t k = 0; k < length; ++k)
    for (int64_t place = 0; place < places; ++place)
      if (int64_t step = at[place] > 1 ? values[strides[place] + k] - values[k] : 0) {
        if (grid.along[k] >= 0 || taken.test(place))
          return std::nullopt;
        taken.set(place);
        grid.along[k] = place, grid.steps[k] = step;
      }
  for (int64_t i = 0; i < count; ++i) {
    int64_t k = i % length, along = grid.along[k];
    int64_t number = along < 0 ? 0 : i / strides[along] % at[along];
    if (values[i] != grid.first[k] + number * grid.steps[k])
      return std::nullopt;
  }
  return grid;
}

/// Returns the elements that constant index tuples [.., K] pick from the K leading dimensions if
/// they are a strided slice; null if they are not. (A padding mask is read at a grid of positions.)
static Tensor pickedRectangle(Tensor input, DenseElementsAttr tuples) {
  std::optional<TupleGrid> grid = gridOf(tuples);
  if (!grid)
    return {};
  ArrayRef<int64_t> at = tuples.getType().getShape();
  int64_t length = at.back(), places = at.size() - 1;
  Sizes starts(input.rank(), 0), limits(input.shape()), steps(input.rank(), 1);
  for (int64_t k = 0; k < length; ++k) {
    starts[k] = grid->first[k], steps[k] = grid->steps[k];
    limits[k] = starts[k] + (grid->along[k] < 0 ? 0 : at[grid->along[k]] - 1) * steps[k] + 1;
    if (steps[k] < 1 || starts[k] < 0 || limits[k] > input.dim(k))
      return {};
  }
  Tensor picked = input.slice(starts, limits, steps);
  // Picked dimensions move to the places along which they run, the others follow.
  // Those with one value come after them; their size is 1.
  Sizes perm = allDims(input.rank()), shape(places, 1);
  auto placeOf = [&](int64_t k) { return grid->along[k] < 0 ? places : grid->along[k]; };
  std::stable_sort(perm.begin(), perm.begin() + length,
                   [&](int64_t a, int64_t b) { return placeOf(a) < placeOf(b); });
  for (int64_t place : grid->along)
    if (place >= 0)
      shape[place] = at[place];
  ArrayRef<int64_t> others = input.shape().drop_front(length);
  picked = picked.transpose(perm).reshape(joinedSizes({shape, others}));
  return picked.broadcast(joinedSizes({at.drop_back(), others}));
}

/// Removes leading elements of the index tuples that equal their own place, as in
/// x[arange(B), last]: these are batch dimensions.
static Tensor peelBatch(Node &node, Tensor indices, Tensor input, int64_t &batch) {
  while (auto concat = indices.getDefiningOp<nn::ConcatOp>()) {
    OperandRange parts = concat.getInputs();
    Tensor first(node, parts.front());
    DenseElementsAttr places = node.building.distinctOf(first);
    int64_t rank = indices.rank(), size = indices.dim(batch);
    if (int64_t(concat.getDim()) != rank - 1 || parts.size() < 2 || first.dim(-1) != 1 || !places ||
        batch + 1 >= rank || size != input.dim(batch))
      break;
    ArrayRef<int64_t> distinct = places.getType().getShape();
    int64_t stride = llvm::product_of(distinct.drop_front(batch + 1)), at = 0;
    if (distinct[batch] != size ||
        !llvm::all_of(places.getValues<APInt>(), [&](const APInt &value) {
          return value.getSExtValue() == at++ / stride % size;
        }))
      break;
    ++batch;
    auto rest =
        llvm::map_to_vector(parts.drop_front(), [&](Value part) { return Tensor(node, part); });
    indices = joined(rest, rank - 1);
    if (!indices)
      return {};
  }
  return indices;
}

static Tensor importGatherNd(Node &node, Tensor x, Tensor ids) {
  int64_t batch = node.intAttr("batch_dims", 0);
  if (!areIndices(ids))
    return node.error("indices must be integers");
  if (batch < 0 || ids.rank() < 1 || batch >= ids.rank() || batch >= x.rank())
    return node.error("batch_dims is out of range");
  int64_t tuple = ids.dim(-1);
  if (tuple < 1 || tuple > x.rank() - batch ||
      x.shape().take_front(batch) != ids.shape().take_front(batch))
    return node.error("index tuples of length {} do not fit {}", tuple, x);
  Sizes shape = joinedSizes({ids.shape().drop_back(), x.shape().drop_front(batch + tuple)});
  ids = peelBatch(node, ids, x, batch);
  if (ids)
    ids = wrapped(ids, x.shape().slice(batch, ids.dim(-1)));
  if (!ids)
    return {};
  if (batch == 0 && !node.building.constantOf(x))
    if (DenseElementsAttr known = node.building.constantOf(ids))
      if (Tensor picked = pickedRectangle(x, known))
        return picked;
  return node.create<nn::GatherNdOp>(x.type().clone(shape), x, ids, batch);
}

/// Returns as many lines along the axis as `ids` has.
static Tensor linesFor(Tensor x, Tensor ids, int64_t axis) {
  return x.cropped(withSize(ids.shape(), axis, x.dim(axis)));
}

Tensor onnx::gatherElements(Tensor from, Tensor ids, int64_t axis) {
  if (!from || !ids)
    return {};
  int64_t rank = from.rank();
  Sizes perm = dimToEnd(rank, axis);
  Tensor input = linesFor(from, ids, axis).transpose(perm);
  Tensor indices = ids.transpose(perm).unsqueeze(rank);
  if (!input || !indices)
    return {};
  auto found = input.type().clone(indices.shape().drop_back());
  return from.node()
      .create<nn::GatherNdOp>(found, input, indices, rank - 1)
      .transpose(inverse(perm));
}

/// Picks one element of each line along the axis for each index of the line: a
/// gather_nd with all other dimensions as batch dimensions.
static Tensor importGatherElements(Node &node, Tensor x, Tensor ids) {
  int64_t axis = node.axis();
  if (!areIndices(ids))
    return node.error("indices must be integers");
  if (!fitLines(ids, x, axis))
    return node.error("indices {} do not fit {}: one of at most as many lines", ids, x);
  return gatherElements(x, wrapped(ids, {x.dim(axis)}), axis);
}

// Scatters: an assignment to a slice joins slices. Floats that replace or are added elsewhere
// become sums by index tuples, whose gradient is a gather: the cost grows with the
// updates. Everything else compares each place
// with each index, as there is no op that combines by index in another way.

namespace {

/// Maximum number of pairs of a place and an index that are compared.
constexpr int64_t kMaxPairs = int64_t(1) << 28;

/// How updates are combined with the data.
struct Combine {
  StringRef name;
  nn::ReduceKind kind; // of several updates
  double neutral;      // changes nothing
  Tensor (*combine)(Operand data, Operand updates);
};

constexpr Combine kCombines[] = {
    {"none", nn::ReduceKind::Sum, 0, nullptr},
    {"add", nn::ReduceKind::Sum, 0, binary<nn::AddOp>},
    {"mul", nn::ReduceKind::Prod, 1, binary<nn::MulOp>},
    {"max", nn::ReduceKind::Max, -HUGE_VAL, binary<nn::MaxOp>},
    {"min", nn::ReduceKind::Min, HUGE_VAL, binary<nn::MinOp>},
};

/// A scatter into [B.., R.., I..]: index tuples [B.., n.., K] of R.., updates [B.., n.., I..].
struct Scatter {
  Node &node;
  Tensor data, indices, updates;
  int64_t batch;
  const Combine &how;

  bool replaces() const { return !how.combine; }
  int64_t tuple() const { return indices.dim(-1); }

  /// If the indices are known: makes those out of range (-1) that a later equal index overwrites,
  /// as ONNX Runtime does. ONNX leaves open which of several equal indices wins.
  Tensor withoutOverwritten() {
    DenseElementsAttr attr = node.building.constantOf(indices);
    if (!attr)
      return indices;
    int64_t length = tuple(), tuples = attr.getNumElements() / std::max<int64_t>(length, 1);
    int64_t batches = llvm::product_of(indices.shape().take_front(batch)),
            perBatch = std::max<int64_t>(tuples / std::max<int64_t>(batches, 1), 1);
    Sizes values = numbersOf(attr);
    std::map<Sizes, int64_t> last;
    bool changed = false;
    for (int64_t i = 0; i < tuples; ++i) {
      Sizes key = {i / perBatch};
      llvm::append_range(key, ArrayRef(values).slice(i * length, length));
      auto [it, fresh] = last.try_emplace(key, i);
      if (fresh)
        continue;
      std::fill_n(values.begin() + it->second * length, length, -1);
      it->second = i;
      changed = true;
    }
    return changed ? constantLike(indices, values) : indices;
  }

  /// If updates replace a box of consecutive places, an assignment to slices such as `x[:, 1:] =
  /// y`: sets `first` to the box's first place.
  bool isBox(SmallVectorImpl<int64_t> &first) {
    DenseElementsAttr attr = node.building.constantOf(indices);
    if (!replaces() || batch != 0 || indices.rank() != tuple() + 1 || !attr)
      return false;
    std::optional<TupleGrid> grid = gridOf(attr);
    if (!grid)
      return false;
    for (int64_t k = 0; k < tuple(); ++k)
      if (grid->first[k] < 0 || grid->steps[k] != 1 ||
          grid->along[k] != (indices.dim(k) == 1 ? -1 : k))
        return false;
    first.assign(grid->first.begin(), grid->first.end());
    return true;
  }

  /// Returns `whole` with `part` at place `first`, from dimension `dim` on; earlier ones are equal.
  Tensor assigned(Tensor whole, Tensor part, ArrayRef<int64_t> first, size_t dim) {
    if (!whole || dim == first.size())
      return whole ? part : Tensor();
    int64_t begin = first[dim], end = begin + part.dim(dim);
    Tensor inside = assigned(whole.part(dim, begin, end), part, first, dim + 1);
    Tensor after = whole.part(dim, end, whole.dim(dim));
    return joined({whole.part(dim, 0, begin), inside, after}, dim);
  }

  Tensor sparse() {
    Tensor sum = node.create<nn::GatherNdGradOp>(data.getType(), indices, updates, batch);
    if (!replaces())
      return data + sum;
    Tensor count = node.create<nn::GatherNdGradOp>(data.getType(), indices, updates.like(1), batch);
    return select(count > 0, sum, data);
  }

  /// Compares each place with each index: [batches, R, n, I].
  Tensor dense() {
    ArrayRef<int64_t> shape = data.shape(), looked = shape.slice(batch, tuple());
    int64_t batches = llvm::product_of(shape.take_front(batch)), rows = llvm::product_of(looked),
            inner = llvm::product_of(shape.drop_front(batch + tuple())),
            tuples = llvm::product_of(indices.shape().drop_back().drop_front(batch));
    if (rows > 0 && tuples > 0 && inner > 0 && batches > kMaxPairs / rows / tuples / inner)
      return node.error("a scatter of {} by {} would compare too many pairs of an element and an "
                        "index; use floats with reduction none or add",
                        data, indices);
    // Tuples become numbers of rows.
    Sizes strides(tuple(), 1);
    for (int64_t k = tuple() - 1; k-- > 0;)
      strides[k] = strides[k + 1] * looked[k + 1];
    Tensor row = indices.cast(node.builder.getI64Type()) * node.constant(strides);
    row = row.sum({indices.rank() - 1}, false);
    Sizes all = {batches, rows, tuples, inner};
    auto flat = [&](Tensor value, ArrayRef<int64_t> shape) {
      return value.reshape(shape).broadcast(all);
    };
    Tensor place = node.iota(all, 1);
    Tensor hit = equal(place, flat(row, {batches, 1, tuples, 1}));
    bool truth = data.hasTruths();
    Type element = truth ? Type(node.builder.getI32Type()) : data.element();
    Tensor value = flat(updates.cast(element), {batches, 1, tuples, inner});
    // Whole numbers have no infinity, but the element that is there already changes no extreme.
    bool isOpen = std::isinf(how.neutral) && !isa<FloatType>(element);
    Tensor other = isOpen ? flat(data, {batches, rows, 1, inner}) : value.like(how.neutral);
    Tensor chosen = select(hit, value, other);
    Tensor found = chosen.reduce(how.kind, {2}, false).reshape(shape);
    Tensor count = hit.cast(node.builder.getI32Type()).reduce(nn::ReduceKind::Max, {2}, false);
    Tensor any = differ(count.reshape(shape), 0);
    found = truth ? differ(found, 0) : replaces() ? found : how.combine(data, found);
    return select(any, found, data);
  }

  Tensor build() {
    if (data.element() != updates.element())
      return node.error("data and updates have element types {} and {}", data.element(),
                        updates.element());
    if (data.hasTruths() && !replaces())
      return node.error("cannot combine truth values");
    if (replaces())
      indices = withoutOverwritten();
    Sizes first;
    if (isBox(first))
      return assigned(data, updates, first, 0);
    return how.kind == nn::ReduceKind::Sum && data.hasFloats() ? sparse() : dense();
  }
};

} // namespace

/// Reads how updates are combined with the data.
static const Combine &readCombine(Node &node) {
  auto names = llvm::map_to_vector(kCombines, [](const Combine &how) { return how.name; });
  std::string name = node.choiceAttr("reduction", names);
  const auto *found =
      llvm::find_if(kCombines, [&](const Combine &how) { return how.name == name; });
  return found == std::end(kCombines) ? kCombines[0] : *found; // after an error
}

/// Returns the list that index tuples of one element are if they are all places in some order, by a
/// sort; null otherwise.
static Tensor orderOf(Node &node, Tensor tuples) {
  Value value = tuples;
  while (auto reshape = value.getDefiningOp<nn::ReshapeOp>())
    value = reshape.getInput();
  auto sort = value.getDefiningOp<nn::TopKOp>();
  bool isOrder = sort && value == sort.getIndices() && nn::tensorOf(value).getRank() == 1 &&
                 nn::tensorOf(sort.getInput()).getShape() == nn::tensorOf(value).getShape();
  return isOrder ? Tensor(node, value) : Tensor();
}

/// Each place is written once: the result at a place is the update whose index that is.
static Tensor scatterInOrder(Tensor order, Tensor updates) {
  Node &node = order.node();
  auto sort = nn::TopKOp::create(node.builder, node.loc, order.type(), order.type(), order,
                                 /*smallest=*/true);
  node.adopt(sort);
  Tensor inverse(node, sort.getIndices());
  Sizes places = llvm::to_vector(llvm::seq<int64_t>(order.count()));
  DenseElementsAttr known = node.building.constantOf(updates);
  if (known && known.getElementType() == order.element() && numbersOf(known) == places)
    return inverse.reshape(updates.shape());
  return gatherAlong(updates, inverse, 0);
}

static Tensor importScatterNd(Node &node, Tensor data, Tensor ids, Tensor updates) {
  const Combine &how = readCombine(node);
  int64_t tuple = ids.dim(-1);
  if (!areIndices(ids) || ids.rank() < 1 || tuple < 1 || tuple > data.rank())
    return node.error("index tuples {} do not fit {}", ids, data);
  Sizes wanted = joinedSizes({ids.shape().drop_back(), data.shape().drop_front(tuple)});
  if (updates.shape() != ArrayRef<int64_t>(wanted))
    return node.error("updates {} do not fit {} and {}", updates, data, ids);
  if (Tensor order = orderOf(node, ids);
      order && !how.combine && ids.rank() == 2 && tuple == 1 && data.dim(0) == ids.dim(0))
    return scatterInOrder(order, updates);
  int64_t batch = 0;
  if (!node.building.constantOf(ids)) // constants may be a box, which is an assignment to slices
    ids = peelBatch(node, ids, data, batch);
  if (ids)
    ids = wrapped(ids, data.shape().slice(batch, ids.dim(-1)), {}, /*isRead=*/false);
  return ids && !node.hasFailed() ? Scatter{node, data, ids, updates, batch, how}.build()
                                  : Tensor();
}

/// One element of each line along the axis for each index of the line. All other dimensions are
/// batch dimensions; lines without indices keep their elements.
static Tensor importScatterElements(Node &node, Tensor whole, Tensor ids, Tensor updates) {
  int64_t rank = whole.rank(), axis = node.axis();
  const Combine &how = readCombine(node);
  if (!areIndices(ids) || !fitLines(ids, whole, axis) || updates.shape() != ids.shape())
    return node.error("indices {} and updates {} do not fit {}", ids, updates, whole);
  Sizes perm = dimToEnd(rank, axis);
  Tensor part = linesFor(whole, ids, axis);
  Tensor indices = wrapped(ids, {whole.dim(axis)}, {}, /*isRead=*/false);
  Tensor data = part.transpose(perm);
  updates = updates.transpose(perm);
  indices = indices.transpose(perm).unsqueeze(rank);
  if (!data || !updates || !indices || node.hasFailed())
    return {};
  Tensor result =
      Scatter{node, data, indices, updates, rank - 1, how}.build().transpose(inverse(perm));
  if (!result || result.getType() == whole.getType())
    return result;
  Tensor mine = node.constant(result.type().clone(node.builder.getI1Type()), 1);
  mine = mine.padded(whole.shape());
  return select(mine, result.padded(whole.shape()), whole);
}

void onnx::registerIndexOps(HandlerRegistry &r) {
  r.add("", "Gather", 1, importGather, needs(2) | defaultAxis(0));
  r.add("", "GatherND", 11, importGatherNd, needs(2));
  r.add("", "GatherElements", 11, importGatherElements, needs(2) | defaultAxis(0));
  r.add("", "ScatterND", 11, importScatterNd, needs(3));
  r.add("", "ScatterElements", 11, importScatterElements, needs(3) | defaultAxis(0));
  r.add("", "Scatter", 9, importScatterElements, needs(3) | defaultAxis(0));
}
