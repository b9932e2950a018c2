//===- ConvTranspose.cpp - Transposed convolutions, and Col2Im ------------===//
//
// One product gives what each input place adds to the result under each kernel element. Kernels
// that tile the result (an upsampling by their own size) place these by a transpose and a reshape;
// otherwise they are spread by the stride, padded to the result's size, and added up, one term for
// each kernel element. Everything is computed with channels last, as in Conv.cpp. Col2Im (PyTorch's
// fold) has the terms as its operand.
//
//===----------------------------------------------------------------------===//
#include "lib/Frontend/ONNX/Ops/Spatial.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Maximum number of terms: elements of a kernel whose places in the result overlap.
constexpr int64_t kMaxTerms = 256;

/// The `canvas` of a dimension is the result before `before` and `after` elements of it are cut
/// off.
struct Transposed {
  Node &node;
  SpatialAxes axes;
  int64_t batch, channels, groups, outputs; // outputs: per group

  LogicalResult readPads();
  int64_t elements() const { return axes.count(&SpatialAxis::kernel); }
  bool tiles() const {
    return llvm::all_of(axes, [](const SpatialAxis &axis) {
      return axis.stride == axis.kernel && axis.dilation == 1 && axis.extra == 0;
    });
  }
  Tensor products(Tensor x, Tensor weight);
  /// Places the products in the result.
  Tensor placed(Tensor products) { return cropped(tiles() ? tiled(products) : summed(products)); }

private:
  Tensor tiled(Tensor products);
  Tensor summed(Tensor products);
  Tensor cropped(Tensor canvas);
};

} // namespace

/// Finds the sizes of the canvas and of the result (ONNX, ConvTranspose).
LogicalResult Transposed::readPads() {
  std::string mode = readAutoPad(node);
  bool isSame = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  std::optional<Sizes> wanted = node.intsAttr("output_shape");
  if (wanted && wanted->size() != axes.size())
    return node.error("output_shape has {} values for {} spatial dimensions", wanted->size(),
                      axes.size());
  if (node.hasFailed() || failed(axes.readPads(node)))
    return failure();
  for (auto [i, axis] : llvm::enumerate(axes)) {
    int64_t spread, extent;
    if (llvm::MulOverflow(axis.size - 1, axis.stride, spread) ||
        llvm::MulOverflow(axis.kernel - 1, axis.dilation, extent) || spread > INT32_MAX ||
        extent > INT32_MAX)
      return node.error("the result is too large");
    axis.canvas = spread + extent + 1 + axis.extra;
    if (wanted || isSame) {
      int64_t size = wanted ? (*wanted)[i] : axis.size * axis.stride;
      if (size < 1 || size > INT32_MAX)
        return node.error("output_shape has the value {}", size);
      int64_t total = std::max<int64_t>(axis.canvas - size, 0);
      // A result beyond the canvas is 0 there.
      axis.canvas = std::max(axis.canvas, size);
      axis.before = mode == "SAME_UPPER" ? total / 2 : total - total / 2;
      axis.after = total - axis.before;
    } else if (mode != "NOTSET") {
      axis.before = axis.after = 0;
    }
    axis.result = axis.canvas - axis.before - axis.after;
    if (axis.result < 1)
      return node.error("pads cut off all {} elements of a dimension", axis.canvas);
  }
  return failure(node.hasFailed());
}

/// Returns what each place adds: [N, sizes.., kernel.., groups, outputs] of x [N, sizes.., C] and
/// weight [C, outputs, kernel..].
Tensor Transposed::products(Tensor x, Tensor weight) {
  int64_t mine = channels / groups, elements = this->elements(),
          rows = batch * axes.count(&SpatialAxis::size);
  Sizes shape = joinedSizes(
      {{batch}, axes.list(&SpatialAxis::size), axes.list(&SpatialAxis::kernel), {groups, outputs}});
  // [groups, mine, outputs, elements] -> [groups, mine, elements, outputs]
  weight = weight.reshape({groups, mine, outputs, elements}).transpose({0, 1, 3, 2});
  if (groups == 1)
    return matmul(x.reshape({rows, mine}), weight.reshape({mine, elements * outputs}))
        .reshape(shape);
  Tensor left = x.reshape({rows, groups, mine}).transpose({1, 0, 2});
  Tensor all = matmul(left, weight.reshape({groups, mine, elements * outputs}));
  all = all.reshape({groups, rows, elements, outputs}).transpose({1, 2, 0, 3});
  return all.reshape(shape);
}

/// [N, sizes.., kernel.., groups, outputs] -> [N, sizes * kernel.., groups * outputs].
Tensor Transposed::tiled(Tensor products) {
  Sizes perm{0}, shape{batch};
  for (auto [i, axis] : llvm::enumerate(axes)) {
    perm.append({int64_t(1 + i), int64_t(1 + axes.size() + i)});
    shape.push_back(axis.size * axis.kernel);
  }
  perm.append({int64_t(1 + 2 * axes.size()), int64_t(2 + 2 * axes.size())});
  shape.push_back(groups * outputs);
  return products.transpose(perm).reshape(shape);
}

/// Spreads the products of each kernel element over the canvas, and adds them up.
Tensor Transposed::summed(Tensor products) {
  if (!products)
    return {};
  auto type = products.type();
  int64_t rank = axes.size() + 2;
  Sizes own = joinedSizes({{batch}, axes.list(&SpatialAxis::size), {groups * outputs}});
  Tensor sum;
  bool isFirst = true;
  axes.forEachElement([&](ArrayRef<int64_t> at) {
    Sizes starts(type.getRank(), 0), limits(type.getShape()), strides(type.getRank(), 1),
        low(rank, 0), high(rank, 0), interior(rank, 0);
    for (auto [i, axis] : llvm::enumerate(axes)) {
      starts[1 + axes.size() + i] = at[i];
      limits[1 + axes.size() + i] = at[i] + 1;
      low[1 + i] = at[i] * axis.dilation;
      interior[1 + i] = axis.stride - 1;
      high[1 + i] = axis.canvas - low[1 + i] - ((axis.size - 1) * axis.stride + 1);
    }
    Tensor part = products.slice(starts, limits, strides).reshape(own);
    part = part.padded(low, high, interior);
    sum = isFirst ? part : sum + part;
    isFirst = false;
  });
  return sum;
}

Tensor Transposed::cropped(Tensor canvas) {
  Sizes starts{0}, limits{batch}, strides(axes.size() + 2, 1);
  for (const SpatialAxis &axis : axes) {
    starts.push_back(axis.before);
    limits.push_back(axis.before + axis.result);
  }
  starts.push_back(0), limits.push_back(groups * outputs);
  return canvas.slice(starts, limits, strides);
}

static LogicalResult importConvTranspose(Node &node) {
  if (failed(checkConvolution(node, 5, "transposed convolutions of one to three",
                              /*isTransposed=*/true)))
    return failure();
  auto input = node.input(0).type(), kernel = node.input(1).type();
  int64_t groups = node.intAttr("group", 1), outputs = kernel.getDimSize(1);
  Transposed conv{node, {}, input.getDimSize(0), input.getDimSize(1), groups, outputs};
  if (failed(
          conv.axes.read(node, input.getShape().drop_front(2), kernel.getShape().drop_front(2))) ||
      failed(conv.axes.readList(node, "output_padding", &SpatialAxis::extra, 0)) ||
      failed(conv.readPads()))
    return failure();
  if (!conv.tiles() && conv.elements() > kMaxTerms)
    return node.error("a kernel of {} elements that overlap in the result is too large: at most {} "
                      "are supported",
                      conv.elements(), kMaxTerms);
  Tensor products = conv.products(channelsLast(node.input(0)), node.input(1));
  return setWithBias(node, conv.placed(products), groups * outputs);
}

/// Reads the axes of a Col2Im, whose image has `sizes` and whose blocks have `kernel` elements.
static LogicalResult readBlocks(Node &node, SpatialAxes &axes, ArrayRef<int64_t> sizes,
                                ArrayRef<int64_t> kernel) {
  if (failed(axes.read(node, sizes, kernel,
                       "image_shape and block_shape must be positive, in 32 bits")) ||
      failed(axes.readPads(node)))
    return failure();
  for (SpatialAxis &axis : axes) {
    axis.result = axis.size;
    axis.canvas = axis.result + axis.before + axis.after;
    if (axis.extent() > axis.canvas)
      return node.error("a block spans {} elements of a dimension that has {} with its padding",
                        axis.extent(), axis.canvas);
    axis.size = (axis.canvas - axis.extent()) / axis.stride + 1;
    axis.extra = axis.canvas - ((axis.size - 1) * axis.stride + axis.extent());
  }
  return success();
}

/// Adds up blocks [N, C * kernel.., places..] at their places in an image [N, C, sizes..].
static Tensor importCol2Im(Node &node) {
  const Sizes &sizes = node.ints(1), &kernel = node.ints(2);
  auto type = node.input(0).type();
  if (type.getRank() != 3 || sizes.empty() || sizes.size() > 3 || sizes.size() != kernel.size())
    return node.error("blocks of one to three dimensions are supported, as [N, C * elements, "
                      "places]; the operand is {}, and image_shape and block_shape have {} and {} "
                      "values",
                      type, sizes.size(), kernel.size());
  Transposed fold{node, {}, type.getDimSize(0), 0, 1, 0};
  if (failed(readBlocks(node, fold.axes, sizes, kernel)))
    return {};
  int64_t elements = 1, places = 1, canvas = std::max<int64_t>(1, type.getDimSize(0));
  bool isTooLarge = llvm::MulOverflow(canvas, type.getDimSize(1), canvas);
  for (const SpatialAxis &axis : fold.axes)
    isTooLarge |= llvm::MulOverflow(elements, axis.kernel, elements) ||
                  llvm::MulOverflow(places, axis.size, places) ||
                  llvm::MulOverflow(canvas, axis.canvas, canvas);
  if (isTooLarge || canvas > INT64_MAX / 64)
    return node.error("the image is too large");
  if (type.getDimSize(1) % elements != 0 || type.getDimSize(2) != places)
    return node.error("the operand is {} for {} blocks of {} elements", type, places, elements);
  if (!fold.tiles() && elements > kMaxTerms)
    return node.error("blocks of {} elements that overlap are too large: at most {} are supported",
                      elements, kMaxTerms);
  fold.channels = fold.outputs = type.getDimSize(1) / elements;
  // [N, C, kernel.., sizes..] -> [N, sizes.., kernel.., 1, C]
  int64_t count = fold.axes.size();
  Sizes own = fold.axes.list(&SpatialAxis::size);
  Tensor terms = node.input(0).reshape(joinedSizes({{fold.batch, fold.outputs}, kernel, own}));
  terms = terms.transpose(
      joinedSizes({{0}, dimRange(2 + count, 2 + 2 * count), dimRange(2, 2 + count), {1}}));
  terms = terms.reshape(joinedSizes({{fold.batch}, own, kernel, {1, fold.outputs}}));
  return channelsSecond(fold.placed(terms));
}

void onnx::registerConvTransposeOps(HandlerRegistry &r) {
  r.add("", "Col2Im", 18, importCol2Im, needs(3) | floats(1) | knownInts(1, 2));
  r.add("", "ConvTranspose", 1, importConvTranspose, needs(2));
}
