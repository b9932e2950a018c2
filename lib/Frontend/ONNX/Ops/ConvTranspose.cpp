//===- ConvTranspose.cpp - Transposed convolutions, and Col2Im ------------===//
//
// One product gives what each input place adds to the result under each kernel element. Kernels
// that tile the result (an upsampling by their own size) place these by a transpose and a reshape;
// otherwise they are spread by the stride, padded to the result's size, and added up, one term for
// each kernel element. Everything is computed with channels last, as in Conv.cpp. Col2Im (PyTorch's
// fold) has the terms as its operand.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Maximum number of terms: elements of a kernel whose places in the result overlap.
constexpr int64_t kMaxTerms = 256;

/// One spatial dimension. `canvas` is the result before `before` and `after` elements of it are cut
/// off, `result` the result's size.
struct Axis {
  int64_t size, kernel, stride = 1, dilation = 1, before = 0, after = 0, extra = 0;
  int64_t canvas = 0, result = 0;
};

struct Transposed {
  Node &node;
  SmallVector<Axis> axes;
  int64_t batch, channels, groups, outputs; // outputs: per group

  LogicalResult readList(StringRef name, int64_t Axis::*field, int64_t least);
  LogicalResult readPads();
  int64_t elements() const {
    int64_t product = 1;
    for (const Axis &axis : axes)
      product *= axis.kernel;
    return product;
  }
  bool tiles() const {
    return llvm::all_of(axes, [](const Axis &axis) {
      return axis.stride == axis.kernel && axis.dilation == 1 && axis.extra == 0;
    });
  }
  Value products(Value x, Value weight);
  Value tiled(Value products);
  Value summed(Value products);
  Value cropped(Value canvas);
};

} // namespace

LogicalResult Transposed::readList(StringRef name, int64_t Axis::*field, int64_t least) {
  auto values = readSpatial(node, name, axes.size(), least);
  if (failed(values))
    return failure();
  for (auto [axis, value] : llvm::zip(axes, *values)) // none if the node lacks it
    axis.*field = value;
  return success();
}

/// Finds the sizes of the canvas and of the result (ONNX, ConvTranspose).
LogicalResult Transposed::readPads() {
  std::string mode = node.stringAttr("auto_pad", "NOTSET");
  bool isSame = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (!isSame && mode != "NOTSET" && mode != "VALID")
    return node.error("auto_pad '" + displayName(mode) +
                      "' is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER");
  std::optional<SmallVector<int64_t>> pads = node.intsAttr("pads");
  std::optional<SmallVector<int64_t>> wanted = node.intsAttr("output_shape");
  if (pads && pads->size() != axes.size() * 2)
    return node.error("pads has " + Twine(pads->size()) + " values for " + Twine(axes.size()) +
                      " spatial dimensions");
  if (wanted && wanted->size() != axes.size())
    return node.error("output_shape has " + Twine(wanted->size()) + " values for " +
                      Twine(axes.size()) + " spatial dimensions");
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t spread, extent;
    if (llvm::MulOverflow(axis.size - 1, axis.stride, spread) ||
        llvm::MulOverflow(axis.kernel - 1, axis.dilation, extent) || spread > INT32_MAX ||
        extent > INT32_MAX)
      return node.error("the result is too large");
    axis.canvas = spread + extent + 1 + axis.extra;
    if (wanted || isSame) {
      int64_t size = wanted ? (*wanted)[i] : axis.size * axis.stride;
      int64_t total = axis.canvas - size;
      if (size < 1 || size > INT32_MAX)
        return node.error("output_shape has the value " + Twine(size));
      // A result beyond the canvas is 0 there.
      axis.canvas = std::max(axis.canvas, size);
      total = std::max<int64_t>(total, 0);
      axis.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.after = total - axis.before;
    } else if (pads && mode == "NOTSET") {
      axis.before = (*pads)[i], axis.after = (*pads)[axes.size() + i];
    }
    if (axis.before < 0 || axis.after < 0 || axis.before > INT32_MAX || axis.after > INT32_MAX)
      return node.error("pads are negative or too large");
    axis.result = axis.canvas - axis.before - axis.after;
    if (axis.result < 1)
      return node.error("pads cut off all " + Twine(axis.canvas) + " elements of a dimension");
  }
  return success();
}

/// Returns what each place adds: [N, sizes.., kernel.., groups, outputs] of x [N, sizes.., C] and
/// weight [C, outputs, kernel..].
Value Transposed::products(Value x, Value weight) {
  int64_t mine = channels / groups, elements = this->elements(), rows = batch;
  SmallVector<int64_t> shape{batch};
  for (const Axis &axis : axes)
    rows *= axis.size, shape.push_back(axis.size);
  for (const Axis &axis : axes)
    shape.push_back(axis.kernel);
  shape.append({groups, outputs});
  // [groups, mine, outputs, elements] -> [groups, mine, elements, outputs]
  weight = node.transpose(node.reshape(weight, {groups, mine, outputs, elements}), {0, 1, 3, 2});
  if (groups == 1)
    return node.reshape(node.matmul(node.reshape(x, {rows, mine}),
                                    node.reshape(weight, {mine, elements * outputs})),
                        shape);
  Value left = node.transpose(node.reshape(x, {rows, groups, mine}), {1, 0, 2});
  Value all = node.matmul(left, node.reshape(weight, {groups, mine, elements * outputs}));
  all = node.transpose(node.reshape(all, {groups, rows, elements, outputs}), {1, 2, 0, 3});
  return node.reshape(all, shape);
}

/// [N, sizes.., kernel.., groups, outputs] -> [N, sizes * kernel.., groups * outputs].
Value Transposed::tiled(Value products) {
  SmallVector<int64_t> perm{0}, shape{batch};
  for (auto [i, axis] : llvm::enumerate(axes)) {
    perm.append({int64_t(1 + i), int64_t(1 + axes.size() + i)});
    shape.push_back(axis.size * axis.kernel);
  }
  perm.append({int64_t(1 + 2 * axes.size()), int64_t(2 + 2 * axes.size())});
  shape.push_back(groups * outputs);
  return node.reshape(node.transpose(products, perm), shape);
}

/// Spreads the products of each kernel element over the canvas, and adds them up.
Value Transposed::summed(Value products) {
  if (!products)
    return {};
  auto type = Node::type(products);
  int64_t rank = axes.size() + 2;
  SmallVector<int64_t> own{batch}, at(axes.size(), 0);
  for (const Axis &axis : axes)
    own.push_back(axis.size);
  own.push_back(groups * outputs);
  Value sum;
  for (int64_t n = elements(); n > 0; --n) {
    SmallVector<int64_t> starts(type.getRank(), 0), limits(type.getShape());
    SmallVector<int64_t> low(rank, 0), high(rank, 0), interior(rank, 0);
    for (auto [i, axis] : llvm::enumerate(axes)) {
      starts[1 + axes.size() + i] = at[i];
      limits[1 + axes.size() + i] = at[i] + 1;
      low[1 + i] = at[i] * axis.dilation;
      interior[1 + i] = axis.stride - 1;
      high[1 + i] = axis.canvas - low[1 + i] - ((axis.size - 1) * axis.stride + 1);
    }
    Value part = node.reshape(
        node.slice(products, starts, limits, SmallVector<int64_t>(type.getRank(), 1)), own);
    part = node.padded(part, low, high, interior);
    sum = sum ? node.add(sum, part) : part;
    if (!sum)
      return {};
    for (size_t i = axes.size(); i-- > 0;) {
      if (++at[i] < axes[i].kernel)
        break;
      at[i] = 0;
    }
  }
  return sum;
}

Value Transposed::cropped(Value canvas) {
  SmallVector<int64_t> starts{0}, limits{batch}, strides(axes.size() + 2, 1);
  for (const Axis &axis : axes) {
    starts.push_back(axis.before);
    limits.push_back(axis.before + axis.result);
  }
  starts.push_back(0), limits.push_back(groups * outputs);
  return node.slice(canvas, starts, limits, strides);
}

static LogicalResult importConvTranspose(Node &node) {
  if (failed(node.require(2)))
    return failure();
  auto input = Node::type(node.input(0)), kernel = Node::type(node.input(1));
  int64_t rank = input.getRank(), groups = node.intAttr("group", 1);
  if (rank < 3 || rank > 5 || kernel.getRank() != rank)
    return node.error("transposed convolutions of one to three dimensions are supported; input and "
                      "weight are " +
                      Node::name(input) + " and " + Node::name(kernel));
  if (input.getElementType() != kernel.getElementType() || !isa<FloatType>(input.getElementType()))
    return node.error("input and weight have element types " + Node::name(input.getElementType()) +
                      " and " + Node::name(kernel.getElementType()));
  int64_t channels = input.getDimSize(1), outputs = kernel.getDimSize(1);
  if (groups < 1 || channels % groups != 0 || kernel.getDimSize(0) != channels)
    return node.error(Twine(groups) + " groups of input " + Node::name(input) + " and weight " +
                      Node::name(kernel) + " do not fit");
  if (auto shape = node.intsAttr("kernel_shape");
      shape && ArrayRef<int64_t>(*shape) != kernel.getShape().drop_front(2))
    return node.error("kernel_shape is not that of the weight " + Node::name(kernel));
  Transposed conv{node, {}, input.getDimSize(0), channels, groups, outputs};
  for (auto [size, extent] :
       llvm::zip(input.getShape().drop_front(2), kernel.getShape().drop_front(2))) {
    if (size < 1 || size > INT32_MAX || extent < 1 || extent > INT32_MAX)
      return node.error("a spatial dimension of input or kernel is empty or too large");
    conv.axes.push_back({size, extent});
  }
  if (failed(conv.readList("strides", &Axis::stride, 1)) ||
      failed(conv.readList("dilations", &Axis::dilation, 1)) ||
      failed(conv.readList("output_padding", &Axis::extra, 0)) || failed(conv.readPads()) ||
      node.attributesAreBad())
    return failure();
  if (!conv.tiles() && conv.elements() > kMaxTerms)
    return node.error("a kernel of " + Twine(conv.elements()) +
                      " elements that overlap in the result is too large: at most " +
                      Twine(kMaxTerms) + " are supported");
  Value products = conv.products(channelsLast(node, node.input(0)), node.input(1));
  Value result = conv.cropped(conv.tiles() ? conv.tiled(products) : conv.summed(products));
  if (Value bias = node.input(2); result && bias) {
    auto type = Node::type(bias);
    if (type.getRank() != 1 || type.getDimSize(0) != groups * outputs)
      return node.error("the bias is " + Node::name(type) + " for " + Twine(groups * outputs) +
                        " channels");
    result = node.add(result, bias);
  }
  node.set(0, channelsSecond(node, result));
  return success();
}

/// Reads the axes of a Col2Im, whose image has `sizes` and whose blocks have `kernel` elements.
static LogicalResult readBlocks(Node &node, Transposed &fold, ArrayRef<int64_t> sizes,
                                ArrayRef<int64_t> kernel) {
  for (auto [size, extent] : llvm::zip(sizes, kernel)) {
    if (size < 1 || size > INT32_MAX || extent < 1 || extent > INT32_MAX)
      return node.error("image_shape and block_shape must be positive, in 32 bits");
    fold.axes.push_back({0, extent});
    fold.axes.back().result = size;
  }
  SmallVector<int64_t> pads =
      node.intsAttr("pads").value_or(SmallVector<int64_t>(fold.axes.size() * 2, 0));
  if (failed(fold.readList("strides", &Axis::stride, 1)) ||
      failed(fold.readList("dilations", &Axis::dilation, 1)) || node.attributesAreBad())
    return failure();
  if (pads.size() != fold.axes.size() * 2)
    return node.error("pads has " + Twine(pads.size()) + " values for " + Twine(fold.axes.size()) +
                      " spatial dimensions");
  for (auto [i, axis] : llvm::enumerate(fold.axes)) {
    axis.before = pads[i], axis.after = pads[fold.axes.size() + i];
    if (axis.before < 0 || axis.after < 0 || axis.before > INT32_MAX || axis.after > INT32_MAX)
      return node.error("pads are negative or too large");
    axis.canvas = axis.result + axis.before + axis.after;
    int64_t extent = (axis.kernel - 1) * axis.dilation + 1;
    if (extent > axis.canvas)
      return node.error("a block spans " + Twine(extent) + " elements of a dimension that has " +
                        Twine(axis.canvas) + " with its padding");
    axis.size = (axis.canvas - extent) / axis.stride + 1;
    axis.extra = axis.canvas - ((axis.size - 1) * axis.stride + extent);
  }
  return success();
}

/// Adds up blocks [N, C * kernel.., places..] at their places in an image [N, C, sizes..].
static LogicalResult importCol2Im(Node &node) {
  SmallVector<int64_t> sizes, kernel;
  if (failed(node.requireFloats(1)) || failed(node.require(3)) ||
      failed(node.constantInts(1, sizes)) || failed(node.constantInts(2, kernel)))
    return failure();
  auto type = Node::type(node.input(0));
  if (type.getRank() != 3 || sizes.empty() || sizes.size() > 3 || sizes.size() != kernel.size())
    return node.error("blocks of one to three dimensions are supported, as [N, C * elements, "
                      "places]; the operand is " +
                      Node::name(type) + ", and image_shape and block_shape have " +
                      Twine(sizes.size()) + " and " + Twine(kernel.size()) + " values");
  Transposed fold{node, {}, type.getDimSize(0), 0, 1, 0};
  if (failed(readBlocks(node, fold, sizes, kernel)))
    return failure();
  int64_t elements = 1, places = 1, canvas = std::max<int64_t>(1, type.getDimSize(0));
  bool isTooLarge = llvm::MulOverflow(canvas, type.getDimSize(1), canvas);
  for (const Axis &axis : fold.axes)
    isTooLarge |= llvm::MulOverflow(elements, axis.kernel, elements) ||
                  llvm::MulOverflow(places, axis.size, places) ||
                  llvm::MulOverflow(canvas, axis.canvas, canvas);
  if (isTooLarge || canvas > INT64_MAX / 64)
    return node.error("the image is too large");
  if (type.getDimSize(1) % elements != 0 || type.getDimSize(2) != places)
    return node.error("the operand is " + Node::name(type) + " for " + Twine(places) +
                      " blocks of " + Twine(elements) + " elements");
  if (!fold.tiles() && elements > kMaxTerms)
    return node.error("blocks of " + Twine(elements) +
                      " elements that overlap are too large: at "
                      "most " +
                      Twine(kMaxTerms) + " are supported");
  fold.channels = fold.outputs = type.getDimSize(1) / elements;
  // [N, C, kernel.., sizes..] -> [N, sizes.., kernel.., 1, C]
  int64_t count = fold.axes.size();
  SmallVector<int64_t> split{fold.batch, fold.outputs}, perm{0}, shape{fold.batch};
  for (const Axis &axis : fold.axes)
    split.push_back(axis.kernel);
  for (const Axis &axis : fold.axes)
    split.push_back(axis.size), shape.push_back(axis.size);
  llvm::append_range(perm, llvm::seq<int64_t>(2 + count, 2 + 2 * count));
  llvm::append_range(perm, llvm::seq<int64_t>(2, 2 + count));
  perm.push_back(1);
  for (const Axis &axis : fold.axes)
    shape.push_back(axis.kernel);
  shape.append({1, fold.outputs});
  Value terms = node.reshape(node.transpose(node.reshape(node.input(0), split), perm), shape);
  node.set(
      0, channelsSecond(node, fold.cropped(fold.tiles() ? fold.tiled(terms) : fold.summed(terms))));
  return success();
}

void onnx::registerConvTransposeOps(HandlerRegistry &r) {
  r.add("", "Col2Im", 18, importCol2Im);
  r.add("", "ConvTranspose", 1, importConvTranspose);
}
