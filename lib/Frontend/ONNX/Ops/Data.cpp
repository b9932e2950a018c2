//===- Data.cpp - Constants, shapes and data movement ---------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Reduce.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Reads the tensor of an attribute `value`; null after an error.
static DenseElementsAttr readValue(Node &node, const AttributeProto &attr) {
  auto data = node.building.context.readConstant(attr.t());
  if (data)
    return *data;
  (void)node.error("attribute 'value': {}", data.takeError());
  return {};
}

/// Returns numbers as a tensor; as a scalar unless they are a `list`.
template <typename T>
static Tensor numbersOf(Node &node, Type element, ArrayRef<T> values, bool list = true) {
  Sizes shape(list ? 1 : 0, int64_t(values.size()));
  return node.constant(DenseElementsAttr::get(RankedTensorType::get(shape, element), values));
}

static Tensor importConstant(Node &node) {
  Type i64 = node.builder.getI64Type(), f32 = node.builder.getF32Type();
  if (const AttributeProto *attr = node.attribute("value"))
    return node.constant(readValue(node, *attr));
  if (const AttributeProto *attr = node.attribute("value_int"))
    return numbersOf<int64_t>(node, i64, attr->i(), /*list=*/false);
  if (const AttributeProto *attr = node.attribute("value_float"))
    return numbersOf<float>(node, f32, attr->f(), /*list=*/false);
  if (const AttributeProto *attr = node.attribute("value_ints"))
    return numbersOf<int64_t>(node, i64, llvm::to_vector(attr->ints()));
  if (const AttributeProto *attr = node.attribute("value_floats"))
    return numbersOf<float>(node, f32, llvm::to_vector(attr->floats()));
  return node.error("has none of the attributes value, value_int(s), value_float(s)");
}

static Tensor importConstantOfShape(Node &node) {
  const Sizes &shape = node.ints(0);
  if (llvm::any_of(shape, [](int64_t size) { return size < 0; }))
    return node.error("a size is negative");
  Attribute number = node.builder.getF32FloatAttr(0);
  if (const AttributeProto *attr = node.attribute("value")) {
    DenseElementsAttr read = readValue(node, *attr);
    if (!read)
      return {};
    if (read.getNumElements() != 1)
      return node.error("attribute 'value' must have one element");
    number = *read.getValues<Attribute>().begin();
  }
  auto type = RankedTensorType::get(shape, cast<TypedAttr>(number).getType());
  if (nn::tensorBytes(type) < 0)
    return node.error("the result's size overflows 64 bits");
  return node.constant(DenseElementsAttr::get(type, number));
}

static Tensor importShape(Node &node, Tensor x) {
  int64_t rank = x.rank();
  int64_t start = node.intAttr("start", 0), end = node.intAttr("end", rank);
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  start = clamp(start);
  end = std::max(clamp(end), start);
  return node.constant(x.shape().slice(start, end - start));
}

static Tensor importSize(Tensor x) {
  return numbersOf<int64_t>(x.node(), x.node().builder.getI64Type(), x.count(), /*list=*/false);
}

static Tensor importRange(Node &node) {
  double numbers[3];
  for (int i = 0; i < 3; ++i) {
    std::optional<double> number = node.scalarConstant(node.input(i));
    if (!number)
      return node.error("operand {} must be known at compile time", i);
    numbers[i] = *number;
  }
  if (numbers[2] == 0 || !std::isfinite(numbers[2]))
    return node.error("the step is 0");
  double count = std::ceil((numbers[1] - numbers[0]) / numbers[2]);
  count = count >= 0 ? count : 0; // NaN is none
  if (count > double(int64_t(1) << 31))
    return node.error("the range has more than 2^31 elements");
  Type element = node.input(0).element();
  Tensor value = scaled(node.iota({int64_t(count)}, 0, element), numbers[2]);
  return numbers[0] != 0 ? value + numbers[0] : value;
}

/// EyeLike: 1 on diagonal k of a matrix of the operand's shape, else 0.
static Tensor importEyeLike(Node &node, Tensor x) {
  Type element = node.typeAttr("dtype", x.element());
  if (!element)
    return {};
  int64_t k = node.intAttr("k", 0), most = int64_t(1) << 40;
  if (k < -most || k > most)
    return node.error("diagonal {} is out of range", k);
  Tensor row = node.iota(x.shape(), 0), column = node.iota(x.shape(), 1);
  return equal(row + double(k), column).cast(element);
}

static Tensor importOneHot(Node &node, Tensor places, Tensor depth, Tensor values) {
  std::optional<double> known = node.scalarConstant(depth);
  if (!known)
    return node.error("operand 1, the depth, must be known at compile time");
  if (!(*known >= 1 && *known <= double(int64_t(1) << 31)) || depth.count() != 1)
    return node.error("operand 1, the depth, must be one number from 1 to 2^31; it is {} of {}",
                      depth, int64_t(*known));
  if (values.shape() != ArrayRef<int64_t>{2})
    return node.error("operand 2 must have two values, for off and on; it is {}", values);
  if (places.hasFloats())
    places = places.cast(node.builder.getI64Type());
  if (!places)
    return {};
  auto ids = places.type();
  int64_t axis = node.intAttr("axis", -1);
  if (failed(node.normalize(axis, ids.getRank() + 1)))
    return {};
  Sizes shape = withDim(ids.getShape(), axis, int64_t(*known));
  Tensor iota = node.iota(shape, axis, ids.getElementType());
  Tensor at = places.unsqueeze(axis).broadcast(shape);
  // Negative indices count from the end.
  Tensor fromEnd = at + double(int64_t(*known));
  at = select(at < 0, fromEnd, at);
  Tensor hit = equal(at, iota);
  auto choice = [&](int64_t number) {
    return values.part(0, number, number + 1).reshape({}).broadcast(shape);
  };
  Tensor off = choice(0), on = choice(1);
  return select(hit, on, off);
}

//===----------------------------------------------------------------------===//
// Shapes and data movement
//===----------------------------------------------------------------------===//

static Tensor importReshape(Node &node, Tensor x) {
  Sizes shape = node.ints(1);
  bool allowZero = node.flagAttr("allowzero", false);
  int64_t known = 1, open = -1;
  for (auto [i, size] : llvm::enumerate(shape)) {
    if (size == 0 && !allowZero && int64_t(i) >= x.rank())
      return node.error("size 0 copies dimension {}, but the operand has no such dimension", i);
    if (size == 0 && !allowZero)
      size = x.dim(i);
    if (size == -1 && open >= 0)
      return node.error("the shape has more than one -1");
    if (size == -1)
      open = i;
    else if (size < 0 || __builtin_mul_overflow(known, size, &known))
      return node.error("the shape has a negative size, or overflows 64 bits");
  }
  int64_t count = x.count();
  if (open >= 0) {
    if (known == 0 || count % known != 0)
      return node.error("the size for -1 is not an integer: {} elements are not divisible by {}",
                        count, known);
    shape[open] = count / known;
    known = count;
  }
  if (known != count)
    return node.error("cannot reshape {} elements into {}", count, known);
  return x.reshape(shape);
}

/// DepthToSpace and SpaceToDepth: blocks of `blocksize` squared channels are squares of space.
template <bool toSpace> static Tensor importBlocks(Node &node, Tensor x) {
  int64_t block = node.intAttr("blocksize", 0), square = block * block;
  std::string mode = node.stringAttr("mode", "DCR");
  if (x.rank() != 4 || block < 1 || block > 4096 || (mode != "DCR" && mode != "CRD"))
    return node.error(
        "needs [batch, channels, height, width], a blocksize and a mode of DCR or CRD");
  int64_t n = x.dim(0), c = x.dim(1), h = x.dim(2), w = x.dim(3);
  if (toSpace ? c % square != 0 : h % block != 0 || w % block != 0)
    return node.error("blocks of {} do not fit {}", block, x);
  if (toSpace)
    c /= square;
  else
    h /= block, w /= block;
  // Channels and squares of depth, and where its dimensions are in space.
  bool depthFirst = mode == "DCR";
  Sizes depth = depthFirst ? Sizes{n, block, block, c, h, w} : Sizes{n, c, block, block, h, w},
        order = depthFirst ? Sizes{0, 3, 4, 1, 5, 2} : Sizes{0, 1, 4, 2, 5, 3};
  if (toSpace)
    return x.reshape(depth).transpose(order).reshape({n, c, h * block, w * block});
  Tensor blocks = x.reshape({n, c, h, block, w, block}).transpose(inverse(order));
  return blocks.reshape({n, c * square, h, w});
}

static Tensor importFlatten(Node &node, Tensor x) {
  int64_t axis = node.intAttr("axis", 1);
  if (axis != x.rank() && failed(node.normalize(axis, x.rank())))
    return {};
  return x.reshape(
      {llvm::product_of(x.shape().take_front(axis)), llvm::product_of(x.shape().drop_front(axis))});
}

static Tensor importSqueeze(Node &node, Tensor x) {
  std::optional<Sizes> axes = node.list();
  if (axes && failed(node.normalizeAll(*axes, x.rank())))
    return {};
  Sizes shape;
  for (auto [i, size] : llvm::enumerate(x.shape())) {
    bool drop = axes ? llvm::is_contained(*axes, int64_t(i)) : size == 1;
    if (drop && size != 1)
      return node.error("dimension {} has size {}, not 1", i, size);
    if (!drop)
      shape.push_back(size);
  }
  return x.reshape(shape);
}

static Tensor importUnsqueeze(Node &node, Tensor x) {
  std::optional<Sizes> axes = node.list();
  if (!axes)
    return node.error("has no axes");
  Sizes shape(x.shape());
  if (failed(node.normalizeAll(*axes, shape.size() + axes->size())))
    return {};
  for (int64_t axis : *axes)
    shape.insert(shape.begin() + axis, 1);
  return x.reshape(shape);
}

static Tensor importTranspose(Node &node, Tensor x) {
  Sizes order = allDims(x.rank());
  Sizes perm = node.intsAttr("perm").value_or(Sizes(llvm::reverse(order)));
  if (!std::is_permutation(perm.begin(), perm.end(), order.begin(), order.end()))
    return node.error("perm is not a permutation of {} dimensions", order.size());
  return x.transpose(perm, /*joined=*/true);
}

static Tensor importExpand(Node &node, Tensor x) {
  Sizes wanted = node.ints(1), shape(x.shape());
  if (wanted.size() > shape.size())
    shape.insert(shape.begin(), wanted.size() - shape.size(), 1);
  size_t offset = shape.size() - wanted.size();
  for (auto [i, size] : llvm::enumerate(wanted)) {
    int64_t &mine = shape[offset + i];
    if (size < 0 || (mine != 1 && size != 1 && size != mine))
      return node.error("cannot expand size {} to {}", mine, size);
    if (mine == 1)
      mine = size;
  }
  return x.broadcast(shape);
}

static Tensor importTile(Node &node, Tensor x) {
  const Sizes &repeats = node.ints(1);
  if (int64_t(repeats.size()) != x.rank())
    return node.error("needs one repeat per dimension");
  // [a, b] -> [1, a, 1, b] -> [r, a, s, b] -> [r*a, s*b]
  Sizes split, repeated, result;
  for (auto [size, repeat] : llvm::zip(x.shape(), repeats)) {
    if (repeat < 0 || __builtin_mul_overflow(size, repeat, &result.emplace_back()))
      return node.error("a repeat is negative, or too large");
    split.append({1, size});
    repeated.append({repeat, size});
  }
  return x.reshape(split).broadcast(repeated).reshape(result);
}

Tensor onnx::concatenated(Node &node, ArrayRef<Tensor> values, int64_t axis) {
  Tensor first = values.front();
  int64_t size = 0;
  for (Tensor value : values) {
    if (value.rank() != first.rank() || value.element() != first.element())
      return node.error("operands have types {} and {}", first, value);
    for (int64_t i : allDims(first.rank()))
      if (i != axis && value.dim(i) != first.dim(i))
        return node.error("operands have sizes {} and {} in dimension {}", first.dim(i),
                          value.dim(i), i);
    if (__builtin_add_overflow(size, value.dim(axis), &size))
      return node.error("the result's size overflows 64 bits");
  }
  return joined(values, axis);
}

/// Slices `value` along `axis`; bounds and a negative step as in numpy.
static Tensor sliceAxis(Tensor value, int64_t axis, int64_t start, int64_t end, int64_t step) {
  int64_t size = value.dim(axis);
  auto fromEnd = [&](int64_t at) { return at < 0 && at >= -size ? at + size : at; };
  start = fromEnd(start);
  end = fromEnd(end);
  if (step > 0) {
    start = std::clamp<int64_t>(start, 0, size);
    return value.part(axis, start, std::max(std::clamp<int64_t>(end, 0, size), start),
                      std::min<int64_t>(step, std::max<int64_t>(size, 1)));
  }
  // Backwards: the picked positions forwards, then turned by a gather.
  int64_t first = start < 0 ? -1 : std::min(start, size - 1);
  int64_t last = end < 0 ? -1 : std::min(end, size - 1);
  int64_t stride = step <= -size ? std::max<int64_t>(size, 1) : -step;
  Sizes picked;
  for (int64_t at = first; at > last; at -= stride)
    picked.push_back(at);
  if (picked.size() > 1)
    return gatherAlong(value, value.node().constant(picked), axis);
  int64_t only = picked.empty() ? 0 : picked[0];
  return value.part(axis, only, only + picked.size());
}

static Tensor importSlice(Node &node, Tensor value) {
  Sizes starts = node.ints(1), ends = node.ints(2), axes = node.ints(3), steps = node.ints(4);
  if (axes.empty())
    axes = allDims(starts.size());
  if (steps.empty())
    steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    return node.error("starts, ends, axes and steps differ in length");
  Sizes sorted = axes;
  if (failed(node.normalizeAll(sorted, value.rank())))
    return {};
  for (auto [axis, start, end, step] : llvm::zip(axes, starts, ends, steps)) {
    if (step == 0)
      return node.error("a step is 0");
    if (value)
      value = sliceAxis(value, axis < 0 ? axis + value.rank() : axis, start, end, step);
  }
  return value;
}

static LogicalResult importSplit(Node &node, Tensor x) {
  int64_t size = x.dim(node.axis()), count = node.numOutputs();
  Sizes sizes = node.list().value_or(Sizes());
  if (sizes.empty()) {
    int64_t parts = node.intAttr("num_outputs", count);
    if (parts < 1 || parts != count)
      return node.error("num_outputs is {}, but it has {} results", parts, count);
    int64_t chunk = (size + parts - 1) / parts;
    for (int64_t i = 0; i < parts; ++i)
      sizes.push_back(std::clamp<int64_t>(size - i * chunk, 0, chunk));
  }
  if (int64_t(sizes.size()) != count)
    return node.error("has {} results for {} parts", count, sizes.size());
  SmallVector<Tensor> parts;
  if (failed(cut(x, node.axis(), sizes, parts)))
    return failure();
  for (auto [i, part] : llvm::enumerate(parts))
    node.set(i, part);
  return success();
}

/// Pads with elements of the operand: its edge, its mirror image without the edge, or from its
/// other end.
static Tensor padWithElements(Tensor x, StringRef mode, ArrayRef<int64_t> pads,
                              ArrayRef<int64_t> axes) {
  Node &node = x.node();
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t before = pads[i], after = pads[axes.size() + i];
    int64_t size = x.dim(axis), most = int64_t(1) << 24;
    if (before == 0 && after == 0)
      continue;
    if (before < 0 || after < 0 || before > most || after > most || size < 1 || size > most)
      return node.error("mode {} with pads {} and {} of a dimension of {} is not supported", mode,
                        before, after, size);
    Sizes places;
    int64_t period = mode == "wrap" ? size : std::max<int64_t>(2 * (size - 1), 1);
    for (int64_t at = -before; at < size + after; ++at) {
      int64_t turn = (at % period + period) % period;
      places.push_back(mode == "edge"   ? std::clamp<int64_t>(at, 0, size - 1)
                       : mode == "wrap" ? turn
                                        : std::min(turn, period - turn));
    }
    x = gatherAlong(x, node.constant(places), axis);
    if (!x)
      return {};
  }
  return x;
}

static Tensor importPad(Node &node, Tensor x) {
  std::string mode = node.choiceAttr("mode", {"constant", "edge", "reflect", "wrap"});
  Sizes pads = node.ints(1), axes = node.ints(3);
  std::optional<double> number = node.has(2) ? node.scalarConstant(node.input(2)) : 0;
  if (!number)
    return node.error("the padded value must be known at compile time");
  int64_t rank = x.rank();
  if (axes.empty())
    axes = allDims(rank);
  if (pads.size() != axes.size() * 2)
    return node.error("needs two pads per dimension");
  for (int64_t &axis : axes)
    if (failed(node.normalize(axis, rank)))
      return {};
  if (mode != "constant")
    return padWithElements(x, mode, pads, axes);
  Sizes low(rank, 0), high(low), starts(low), limits(x.shape()), strides(rank, 1), shape(limits);
  for (auto [i, axis] : llvm::enumerate(axes)) {
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
  Tensor result = x.slice(starts, limits, strides);
  return result.shape() == ArrayRef<int64_t>(shape) ? result
                                                    : result.padded(low, high, {}, *number);
}

static Tensor importTrilu(Node &node, Tensor x) {
  const Sizes &k = node.ints(1);
  bool upper = node.flagAttr("upper", true);
  ArrayRef<int64_t> matrix = x.shape().take_back(2);
  Tensor row = node.iota(matrix, 0), column = node.iota(matrix, 1);
  // A diagonal may have more digits than a double.
  auto diagonal = DenseElementsAttr::get(row.type(), k.empty() ? int64_t(0) : k.front());
  Tensor edge = row + node.constant(diagonal);
  Tensor keep = compare(column, edge, upper ? nn::Predicate::GE : nn::Predicate::LE);
  return select(keep.broadcast(x.shape()), x, 0);
}

static Tensor importCumsum(Node &node, Tensor x) {
  int64_t axis = node.onlyInt(1, "axis");
  if (failed(node.normalize(axis, x.rank())))
    return {};
  bool exclusive = node.flagAttr("exclusive", false), reverse = node.flagAttr("reverse", false);
  return node.create<nn::CumsumOp>(x.type(), x, axis, exclusive, reverse);
}

void onnx::registerDataOps(HandlerRegistry &r) {
  r.add("", "Constant", 1, importConstant, needs(0));
  r.add("", "ConstantOfShape", 9, importConstantOfShape, needs(1) | knownInts(0));
  r.add("", "Shape", 1, importShape, needs(1));
  r.add("", "Size", 1, importSize, needs(1));
  r.add("", "Range", 11, importRange, needs(3));
  r.add("", "OneHot", 9, importOneHot, needs(3));
  r.add("", "EyeLike", 9, importEyeLike, rank(2, 2));
  r.add("", "Reshape", 5, importReshape, needs(2) | knownInts(1));
  r.add("", "DepthToSpace", 1, importBlocks<true>, needs(1));
  r.add("", "SpaceToDepth", 1, importBlocks<false>, needs(1));
  r.add("", "Flatten", 1, importFlatten, needs(1));
  r.add("", "Squeeze", 1, importSqueeze, needs(1) | movedList("axes", 13));
  r.add("", "Unsqueeze", 1, importUnsqueeze, needs(1) | movedList("axes", 13));
  r.add("", "Transpose", 1, importTranspose, needs(1));
  r.add("", "Expand", 8, importExpand, needs(2) | knownInts(1));
  r.add("", "Tile", 6, importTile, needs(2) | knownInts(1));
  auto concat = [](Node &node) { return concatenated(node, node.operands(), node.axis()); };
  r.add("", "Concat", 4, concat, needs(kAllOperands) | defaultAxis(0));
  r.add("", "Slice", 10, importSlice, needs(3) | knownInts(1, 2, 3, 4));
  r.add("", "Split", 2, importSplit, defaultAxis(0) | movedList("split", 13));
  r.add("", "Pad", 11, importPad, needs(2) | knownInts(1, 3));
  r.add("", "Trilu", 14, importTrilu, rank(2) | knownInts(1));
  r.add("", "CumSum", 11, importCumsum, needs(2));
}
