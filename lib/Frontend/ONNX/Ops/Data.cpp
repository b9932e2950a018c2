//===- Data.cpp - Shapes and data movement --------------------------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static LogicalResult importReshape(Node &node) {
  SmallVector<int64_t> shape;
  if (failed(node.require(2)) || failed(node.constantInts(1, shape)))
    return failure();
  auto type = Node::type(node.input(0));
  bool allowZero = node.flagAttr("allowzero", false);
  int64_t known = 1, open = -1;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (size == 0 && !allowZero) {
      if (int64_t(i) >= type.getRank())
        return node.error("size 0 copies dimension " + Twine(i) +
                          ", but the operand has no such dimension");
      size = type.getDimSize(i);
    }
    if (size == -1) {
      if (open >= 0)
        return node.error("the shape has more than one -1");
      open = i;
    } else if (size < 0 || __builtin_mul_overflow(known, size, &known)) {
      return node.error("the shape has a negative size, or overflows 64 bits");
    }
  }
  int64_t count = type.getNumElements();
  if (open >= 0) {
    if (known == 0 || count % known != 0)
      return node.error("the size for -1 is not an integer: " + Twine(count) +
                        " elements are not divisible by " + Twine(known));
    shape[open] = count / known;
    known = count;
  }
  if (known != count)
    return node.error("cannot reshape " + Twine(count) + " elements into " + Twine(known));
  node.set(0, node.reshape(node.input(0), shape));
  return success();
}

/// DepthToSpace and SpaceToDepth: blocks of `blocksize` squared channels are squares of space.
template <bool toSpace> static LogicalResult importBlocks(Node &node) {
  if (failed(node.require(1)))
    return failure();
  auto type = Node::type(node.input(0));
  int64_t block = node.intAttr("blocksize", 0);
  std::string mode = node.stringAttr("mode", "DCR");
  if (type.getRank() != 4 || block < 1 || block > 4096 || (mode != "DCR" && mode != "CRD"))
    return node.error(
        "needs [batch, channels, height, width], a blocksize and a mode of DCR or CRD");
  int64_t n = type.getDimSize(0), c = type.getDimSize(1), h = type.getDimSize(2),
          w = type.getDimSize(3);
  if (toSpace ? c % (block * block) != 0 : h % block != 0 || w % block != 0)
    return node.error("blocks of " + Twine(block) + " do not fit " + Node::name(type));
  Value x = node.input(0);
  if (!toSpace)
    x = node.reshape(node.transpose(node.reshape(x, {n, c, h / block, block, w / block, block}),
                                    mode == "DCR" ? SmallVector<int64_t>{0, 3, 5, 1, 2, 4}
                                                  : SmallVector<int64_t>{0, 1, 3, 5, 2, 4}),
                     {n, c * block * block, h / block, w / block});
  else if (mode == "DCR")
    x = node.transpose(node.reshape(x, {n, block, block, c / (block * block), h, w}),
                       {0, 3, 4, 1, 5, 2});
  else
    x = node.transpose(node.reshape(x, {n, c / (block * block), block, block, h, w}),
                       {0, 1, 4, 2, 5, 3});
  node.set(0, toSpace ? node.reshape(x, {n, c / (block * block), h * block, w * block}) : x);
  return success();
}

static LogicalResult importFlatten(Node &node) {
  if (failed(node.require(1)))
    return failure();
  auto type = Node::type(node.input(0));
  int64_t axis = node.intAttr("axis", 1);
  if (axis != type.getRank() && failed(node.normalize(axis, type.getRank())))
    return failure();
  int64_t rows = 1, columns = 1;
  for (int64_t i = 0; i < type.getRank(); ++i)
    (i < axis ? rows : columns) *= type.getDimSize(i);
  node.set(0, node.reshape(node.input(0), {rows, columns}));
  return success();
}

/// Axes of Squeeze and Unsqueeze: an attribute before opset 13, then an
/// operand.
static LogicalResult readAxes(Node &node, std::optional<SmallVector<int64_t>> &axes) {
  if (node.version < 13)
    axes = node.intsAttr("axes");
  else if (node.has(1)) {
    axes.emplace();
    return node.constantInts(1, *axes);
  }
  return success();
}

static LogicalResult importSqueeze(Node &node) {
  std::optional<SmallVector<int64_t>> axes;
  if (failed(node.require(1)) || failed(readAxes(node, axes)))
    return failure();
  auto type = Node::type(node.input(0));
  if (axes && failed(node.normalizeAll(*axes, type.getRank())))
    return failure();
  SmallVector<int64_t> shape;
  for (auto [i, size] : llvm::enumerate(type.getShape())) {
    bool drop = axes ? llvm::is_contained(*axes, int64_t(i)) : size == 1;
    if (drop && size != 1)
      return node.error("dimension " + Twine(i) + " has size " + Twine(size) + ", not 1");
    if (!drop)
      shape.push_back(size);
  }
  node.set(0, node.reshape(node.input(0), shape));
  return success();
}

static LogicalResult importUnsqueeze(Node &node) {
  std::optional<SmallVector<int64_t>> axes;
  if (failed(node.require(1)) || failed(readAxes(node, axes)))
    return failure();
  if (!axes)
    return node.error("has no axes");
  auto type = Node::type(node.input(0));
  if (failed(node.normalizeAll(*axes, type.getRank() + axes->size())))
    return failure();
  SmallVector<int64_t> shape(type.getShape());
  for (int64_t axis : *axes)
    shape.insert(shape.begin() + axis, 1);
  node.set(0, node.reshape(node.input(0), shape));
  return success();
}

static LogicalResult importTranspose(Node &node) {
  if (failed(node.require(1)))
    return failure();
  int64_t rank = Node::type(node.input(0)).getRank();
  SmallVector<int64_t> perm;
  if (auto attr = node.intsAttr("perm"))
    perm = *attr;
  else
    for (int64_t i = rank; i-- > 0;)
      perm.push_back(i);
  SmallVector<int64_t> sorted(perm);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, rank)))
    return node.error("perm is not a permutation of " + Twine(rank) + " dimensions");
  Value value = node.input(0);
  // Two transposes are one.
  if (auto inner = value.getDefiningOp<nn::TransposeOp>()) {
    for (int64_t &p : perm)
      p = inner.getPerm()[p];
    value = inner.getInput();
  }
  node.set(0, node.transpose(value, perm));
  return success();
}

static LogicalResult importExpand(Node &node) {
  SmallVector<int64_t> wanted;
  if (failed(node.require(2)) || failed(node.constantInts(1, wanted)))
    return failure();
  SmallVector<int64_t> shape(Node::type(node.input(0)).getShape());
  if (wanted.size() > shape.size())
    shape.insert(shape.begin(), wanted.size() - shape.size(), 1);
  size_t offset = shape.size() - wanted.size();
  for (auto [i, size] : llvm::enumerate(wanted)) {
    int64_t &mine = shape[offset + i];
    if (size < 0 || (mine != 1 && size != 1 && size != mine))
      return node.error("cannot expand size " + Twine(mine) + " to " + Twine(size));
    if (mine == 1)
      mine = size;
  }
  node.set(0, node.broadcast(node.input(0), shape));
  return success();
}

static LogicalResult importTile(Node &node) {
  SmallVector<int64_t> repeats;
  if (failed(node.require(2)) || failed(node.constantInts(1, repeats)))
    return failure();
  auto type = Node::type(node.input(0));
  if (int64_t(repeats.size()) != type.getRank())
    return node.error("needs one repeat per dimension");
  // [a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [r*a, s*b]
  SmallVector<int64_t> split, repeated, result;
  for (auto [size, repeat] : llvm::zip(type.getShape(), repeats)) {
    int64_t product;
    if (repeat < 0 || __builtin_mul_overflow(size, repeat, &product))
      return node.error("a repeat is negative, or too large");
    split.append({1, size});
    repeated.append({repeat, size});
    result.push_back(product);
  }
  node.set(0, node.reshape(node.broadcast(node.reshape(node.input(0), split), repeated), result));
  return success();
}

static LogicalResult importConcat(Node &node) {
  if (node.numInputs() == 0 || failed(node.require(node.numInputs())))
    return node.error("has no operands");
  auto first = Node::type(node.input(0));
  int64_t axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, first.getRank())))
    return failure();
  SmallVector<int64_t> shape(first.getShape());
  shape[axis] = 0;
  for (Value value : node.operands()) {
    auto type = Node::type(value);
    if (type.getRank() != first.getRank() || type.getElementType() != first.getElementType())
      return node.error("operands have types " + Node::name(first) + " and " + Node::name(type));
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (i != axis && type.getDimSize(i) != shape[i])
        return node.error("operands have sizes " + Twine(shape[i]) + " and " +
                          Twine(type.getDimSize(i)) + " in dimension " + Twine(i));
    if (__builtin_add_overflow(shape[axis], type.getDimSize(axis), &shape[axis]))
      return node.error("the result's size overflows 64 bits");
  }
  node.set(0, node.joined(node.operands(), axis));
  return success();
}

/// Slices `value` along `axis`; bounds and a negative step as in numpy.
static Value sliceAxis(Node &node, Value value, int64_t axis, int64_t start, int64_t end,
                       int64_t step) {
  auto type = Node::type(value);
  int64_t size = type.getDimSize(axis), rank = type.getRank();
  auto fromEnd = [&](int64_t at) { return at < 0 && at >= -size ? at + size : at; };
  start = fromEnd(start);
  end = fromEnd(end);
  SmallVector<int64_t> starts(rank, 0), limits(type.getShape()), strides(rank, 1);
  if (step > 0) {
    starts[axis] = std::clamp<int64_t>(start, 0, size);
    limits[axis] = std::max(std::clamp<int64_t>(end, 0, size), starts[axis]);
    strides[axis] = std::min<int64_t>(step, std::max<int64_t>(size, 1));
    return node.slice(value, starts, limits, strides);
  }
  // Backwards: the picked positions forwards, then turned by a gather.
  int64_t first = start < 0 ? -1 : std::min(start, size - 1);
  int64_t last = end < 0 ? -1 : std::min(end, size - 1);
  int64_t stride = step <= -size ? std::max<int64_t>(size, 1) : -step;
  SmallVector<int64_t> picked;
  for (int64_t at = first; at > last; at -= stride)
    picked.push_back(at);
  SmallVector<int64_t> shape(type.getShape());
  shape[axis] = picked.size();
  if (picked.size() <= 1) {
    starts[axis] = picked.empty() ? 0 : picked[0];
    limits[axis] = starts[axis] + picked.size();
    return node.slice(value, starts, limits, strides);
  }
  return gatherAlong(node, value, node.constant(picked), axis);
}

static LogicalResult importSlice(Node &node) {
  if (failed(node.require(1)))
    return failure();
  SmallVector<int64_t> starts, ends, axes, steps;
  if (node.version < 10) {
    starts = node.intsAttr("starts").value_or(SmallVector<int64_t>());
    ends = node.intsAttr("ends").value_or(SmallVector<int64_t>());
    axes = node.intsAttr("axes").value_or(SmallVector<int64_t>());
  } else if (failed(node.require(3)) || failed(node.constantInts(1, starts)) ||
             failed(node.constantInts(2, ends)) ||
             (node.has(3) && failed(node.constantInts(3, axes))) ||
             (node.has(4) && failed(node.constantInts(4, steps)))) {
    return failure();
  }
  int64_t rank = Node::type(node.input(0)).getRank();
  if (axes.empty())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, starts.size()));
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return node.error("starts, ends, axes and steps differ in length");
  Value value = node.input(0);
  SmallVector<int64_t> seen;
  for (size_t i = 0; i < starts.size(); ++i) {
    if (failed(node.normalize(axes[i], rank)))
      return failure();
    if (llvm::is_contained(seen, axes[i]))
      return node.error("an axis is given twice");
    seen.push_back(axes[i]);
    if (steps[i] == 0)
      return node.error("a step is 0");
    value = sliceAxis(node, value, axes[i], starts[i], ends[i], steps[i]);
    if (!value)
      return failure();
  }
  node.set(0, value);
  return success();
}

static LogicalResult importSplit(Node &node) {
  if (failed(node.require(1)))
    return failure();
  auto type = Node::type(node.input(0));
  int64_t axis = node.intAttr("axis", 0);
  if (failed(node.normalize(axis, type.getRank())))
    return failure();
  SmallVector<int64_t> sizes = node.intsAttr("split").value_or(SmallVector<int64_t>());
  if (node.version >= 13 && node.has(1) && failed(node.constantInts(1, sizes)))
    return failure();
  int64_t size = type.getDimSize(axis), parts = node.numOutputs();
  if (sizes.empty()) {
    parts = node.intAttr("num_outputs", parts);
    if (parts < 1 || parts != node.numOutputs())
      return node.error("num_outputs is " + Twine(parts) + ", but it has " +
                        Twine(node.numOutputs()) + " results");
    int64_t chunk = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::clamp<int64_t>(size - i * chunk, 0, chunk));
  }
  if (int64_t(sizes.size()) != node.numOutputs())
    return node.error("has " + Twine(node.numOutputs()) + " results for " + Twine(sizes.size()) +
                      " parts");
  SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape()),
      strides(type.getRank(), 1);
  int64_t at = 0;
  for (auto [i, part] : llvm::enumerate(sizes)) {
    if (part < 0 || part > size - at)
      return node.error("parts do not sum to the dimension's size " + Twine(size));
    starts[axis] = at;
    limits[axis] = at + part;
    at += part;
    if (node.wants(i))
      node.set(i, node.slice(node.input(0), starts, limits, strides));
  }
  return at == size
             ? success()
             : node.error("parts sum to " + Twine(at) + ", the dimension has " + Twine(size));
}

/// Pads with elements of the operand: its edge, its mirror image without the edge, or from its
/// other end.
static LogicalResult padWithElements(Node &node, StringRef mode, ArrayRef<int64_t> pads,
                                     ArrayRef<int64_t> axes) {
  Value result = node.input(0);
  for (auto [i, given] : llvm::enumerate(axes)) {
    int64_t axis = given, before = pads[i], after = pads[axes.size() + i];
    if (failed(node.normalize(axis, Node::type(result).getRank())))
      return failure();
    int64_t size = Node::type(result).getDimSize(axis), most = int64_t(1) << 24;
    if (before == 0 && after == 0)
      continue;
    if (before < 0 || after < 0 || before > most || after > most || size < 1 || size > most)
      return node.error("mode '" + mode + "' with pads " + Twine(before) + " and " + Twine(after) +
                        " of a dimension of " + Twine(size) + " is not supported");
    SmallVector<int64_t> places;
    int64_t period = 2 * (size - 1);
    for (int64_t at = -before; at < size + after; ++at) {
      int64_t place = std::clamp<int64_t>(at, 0, size - 1);
      if (mode == "wrap")
        place = (at % size + size) % size;
      else if (mode == "reflect" && period > 0)
        place = std::min((at % period + period) % period, period - (at % period + period) % period);
      places.push_back(place);
    }
    result = gatherAlong(node, result, node.constant(places), axis);
    if (!result)
      return failure();
  }
  node.set(0, result);
  return success();
}

static LogicalResult importPad(Node &node) {
  if (failed(node.require(1)))
    return failure();
  auto type = Node::type(node.input(0));
  std::string mode = node.stringAttr("mode", "constant");
  if (mode != "constant" && mode != "edge" && mode != "reflect" && mode != "wrap")
    return node.error("mode '" + displayName(mode) +
                      "' is not one of constant, edge, reflect, wrap");
  SmallVector<int64_t> pads = node.intsAttr("pads").value_or(SmallVector<int64_t>()), axes;
  double value = node.version < 11 ? node.floatAttr("value", 0) : 0;
  if (node.version >= 11) {
    if (failed(node.require(2)) || failed(node.constantInts(1, pads)))
      return failure();
    if (node.has(2)) {
      std::optional<double> number = node.scalarConstant(node.input(2));
      if (!number)
        return node.error("the padded value must be known at compile time");
      value = *number;
    }
    if (node.has(3) && failed(node.constantInts(3, axes)))
      return failure();
  }
  int64_t rank = type.getRank();
  if (axes.empty())
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (pads.size() != axes.size() * 2)
    return node.error("needs two pads per dimension");
  if (mode != "constant")
    return padWithElements(node, mode, pads, axes);
  SmallVector<int64_t> low(rank, 0), high(rank, 0), interior(rank, 0), shape(type.getShape());
  Value result = node.input(0);
  SmallVector<int64_t> starts(rank, 0), limits(type.getShape()), strides(rank, 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = axes[i];
    if (failed(node.normalize(axis, rank)))
      return failure();
    int64_t before = pads[i], after = pads[axes.size() + i];
    // Negative pads cut.
    if (before < -shape[axis] || after < -shape[axis] || before + after < -shape[axis])
      return node.error("pads cut more than there is");
    starts[axis] = std::max<int64_t>(-before, 0);
    limits[axis] = shape[axis] - std::max<int64_t>(-after, 0);
    low[axis] = std::max<int64_t>(before, 0);
    high[axis] = std::max<int64_t>(after, 0);
    int64_t sum;
    if (__builtin_add_overflow(low[axis], high[axis], &sum) ||
        __builtin_add_overflow(sum, limits[axis] - starts[axis], &shape[axis]))
      return node.error("the result's size overflows 64 bits");
  }
  result = node.slice(result, starts, limits, strides);
  if (!result)
    return failure();
  auto padded = RankedTensorType::get(shape, type.getElementType());
  if (result.getType() != padded)
    result = node.create<nn::PadOp>(padded, result, node.builder.getDenseI64ArrayAttr(low),
                                    node.builder.getDenseI64ArrayAttr(high),
                                    node.builder.getDenseI64ArrayAttr(interior),
                                    node.builder.getF64FloatAttr(value));
  node.set(0, result);
  return success();
}

static LogicalResult importTrilu(Node &node) {
  if (failed(node.require(1)))
    return failure();
  auto type = Node::type(node.input(0));
  int64_t rank = type.getRank();
  if (rank < 2)
    return node.error("needs a matrix");
  SmallVector<int64_t> k;
  if (node.has(1) && failed(node.constantInts(1, k)))
    return failure();
  int64_t diagonal = k.empty() ? 0 : k.front();
  bool upper = node.flagAttr("upper", true);
  SmallVector<int64_t> matrix(type.getShape().take_back(2));
  auto index = RankedTensorType::get(matrix, node.builder.getI64Type());
  Value row = nn::IotaOp::create(node.builder, node.loc, index, 0);
  Value column = nn::IotaOp::create(node.builder, node.loc, index, 1);
  Value edge = node.add(
      row, nn::ConstantOp::create(node.builder, node.loc, DenseElementsAttr::get(index, diagonal)));
  Value keep = node.binary(column, edge, upper ? nn::Predicate::GE : nn::Predicate::LE);
  keep = node.broadcast(keep, type.getShape());
  if (!keep)
    return failure();
  node.set(0, node.create<nn::SelectOp>(type, keep, node.input(0), node.constant(type, 0)));
  return success();
}

static LogicalResult importCumsum(Node &node) {
  SmallVector<int64_t> axis;
  if (failed(node.require(2)) || failed(node.constantInts(1, axis)))
    return failure();
  auto type = Node::type(node.input(0));
  if (axis.size() != 1 || failed(node.normalize(axis[0], type.getRank())))
    return node.error("needs one axis");
  node.set(0, node.create<nn::CumsumOp>(type, node.input(0), axis[0],
                                        node.flagAttr("exclusive", false),
                                        node.flagAttr("reverse", false)));
  return success();
}

void onnx::registerDataOps(HandlerRegistry &r) {
  r.add("", "Reshape", 5, importReshape);
  r.add("", "DepthToSpace", 1, importBlocks<true>);
  r.add("", "SpaceToDepth", 1, importBlocks<false>);
  r.add("", "Flatten", 1, importFlatten);
  r.add("", "Squeeze", 1, importSqueeze);
  r.add("", "Unsqueeze", 1, importUnsqueeze);
  r.add("", "Transpose", 1, importTranspose);
  r.add("", "Expand", 8, importExpand);
  r.add("", "Tile", 6, importTile);
  r.add("", "Concat", 4, importConcat);
  r.add("", "Slice", 1, importSlice);
  r.add("", "Split", 2, importSplit);
  r.add("", "Pad", 2, importPad);
  r.add("", "Trilu", 14, importTrilu);
  r.add("", "CumSum", 11, importCumsum);
}
