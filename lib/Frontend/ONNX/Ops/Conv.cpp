//===- Conv.cpp - Convolutions and pools ----------------------------------===//
//
// A convolution is a product of the weights with the input window at each place
// of the result. It is built from ops that have gradients and sharding rules:
//
//   - windows that tile the input (the patches of a vision transformer, 1x1) are
//     extracted by a reshape and a transpose: no element is copied twice;
//   - other windows take one strided slice of the padded input per kernel
//     element, concatenated: a copy of the input for each;
//   - with one input channel per group (depthwise) there is no matrix product:
//     the slices are scaled and added up.
//
// Everything is computed with channels last, like the rest of the model.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Spatial.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Maximum number of slices; overlapping windows cost one per kernel element.
constexpr int64_t kMaxSlices = 256;

class Windows {
public:
  explicit Windows(Node &node) : node(node) {}
  /// Reads the windows. Fails, with an error, if they need too many slices: `what` names them. With
  /// `needsSlices` windows that tile need slices, too.
  LogicalResult read(ArrayRef<int64_t> sizes, ArrayRef<int64_t> kernel, bool needsSlices,
                     const char *what);
  bool tile() const {
    return llvm::all_of(axes, [](const SpatialAxis &axis) {
      return axis.stride == axis.kernel && axis.dilation == 1 && axis.before == 0 &&
             axis.after == 0 && axis.beyond == 0;
    });
  }
  int64_t elements() const { return axes.count(&SpatialAxis::kernel); }
  int64_t places() const { return axes.count(&SpatialAxis::result); }
  Sizes results() const { return axes.list(&SpatialAxis::result); }
  /// Turns [N, spatial.., C] into [N, results.., elements * C]; the windows must tile.
  Tensor cut(Tensor x);
  /// Turns it into [N, results.., elements, C].
  Tensor split(Tensor x);
  /// Returns the input that each kernel element reads: [N, results.., C]. Empty, or with null
  /// values, after an error.
  SmallVector<Tensor> slices(Tensor x, double padding);
  /// Combines the elements of each window: [N, results.., C].
  template <typename OpT> Tensor pool(Tensor x, double padding, nn::ReduceKind kind);
  /// Returns how many elements each window has, [1, results.., 1], with or without padding.
  Tensor counts(Type element, bool padding);

private:
  LogicalResult readPlaces();

  Node &node;
  SpatialAxes axes;
};

} // namespace

/// Reads the padding, and finds the places of the result.
LogicalResult Windows::readPlaces() {
  std::string mode = readAutoPad(node);
  if (node.hasFailed() || failed(axes.readPads(node)))
    return failure();
  for (SpatialAxis &axis : axes) {
    int64_t extent = axis.extent();
    if (mode != "NOTSET")
      axis.before = axis.after = 0;
    if (mode == "SAME_UPPER" || mode == "SAME_LOWER") {
      int64_t wanted = llvm::divideCeil(axis.size, axis.stride);
      int64_t missing = std::max<int64_t>(0, (wanted - 1) * axis.stride + extent - axis.size);
      axis.before = (missing + (mode == "SAME_LOWER" ? 1 : 0)) / 2;
      axis.after = missing - axis.before;
    }
    int64_t room = axis.size + axis.before + axis.after - extent;
    if (room < 0)
      return node.error("the kernel spans {} elements of a dimension that has {} with its padding",
                        extent, axis.size + axis.before + axis.after);
    axis.result = room / axis.stride + 1;
    if (mode == "NOTSET" && node.flagAttr("ceil_mode", false)) {
      axis.result = llvm::divideCeil(room, axis.stride) + 1;
      // The last window begins in the input or in the padding before it.
      if ((axis.result - 1) * axis.stride >= axis.size + axis.before)
        --axis.result;
      axis.beyond = std::max<int64_t>(0, (axis.result - 1) * axis.stride - room);
    }
  }
  return failure(node.hasFailed());
}

LogicalResult Windows::read(ArrayRef<int64_t> sizes, ArrayRef<int64_t> kernel, bool needsSlices,
                            const char *what) {
  if (failed(axes.read(node, sizes, kernel)) || failed(readPlaces()))
    return failure();
  if ((needsSlices || !tile()) && elements() > kMaxSlices)
    return node.error("a {} is too large: at most {} are supported", plain(say(what, {elements()})),
                      kMaxSlices);
  return success();
}

Tensor Windows::cut(Tensor x) {
  if (!x)
    return {};
  auto type = x.type();
  int64_t rank = type.getRank();
  // No window reads the elements that are left over at the end.
  Sizes starts(rank, 0), limits(type.getShape()), strides(rank, 1);
  Sizes split = {type.getDimSize(0)}, perm = {0}, shape = split;
  for (auto [i, axis] : llvm::enumerate(axes)) {
    limits[1 + i] = axis.result * axis.kernel;
    split.append({axis.result, axis.kernel});
    shape.push_back(axis.result);
    perm.push_back(1 + 2 * i);
  }
  for (size_t i = 0; i < axes.size(); ++i)
    perm.push_back(2 + 2 * i);
  perm.push_back(split.size());
  split.push_back(type.getShape().back());
  shape.push_back(elements() * type.getShape().back());
  x = x.slice(starts, limits, strides);
  return x.reshape(split).transpose(perm).reshape(shape);
}

Tensor Windows::split(Tensor x) {
  auto type = x.type();
  return cut(x).reshape(
      joinedSizes({{type.getDimSize(0)}, results(), {elements(), type.getShape().back()}}));
}

SmallVector<Tensor> Windows::slices(Tensor x, double padding) {
  Sizes none(x.rank(), 0), low(none), high(none);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    low[1 + i] = axis.before;
    high[1 + i] = axis.after + axis.beyond;
  }
  if (low != none || high != none)
    x = x.padded(low, high, none, padding);
  SmallVector<Tensor> values;
  axes.forEachElement([&](ArrayRef<int64_t> at) {
    if (!x)
      return;
    Sizes starts(none), limits(x.shape()), strides(none.size(), 1);
    for (auto [i, axis] : llvm::enumerate(axes)) {
      starts[1 + i] = at[i] * axis.dilation;
      limits[1 + i] = starts[1 + i] + (axis.result - 1) * axis.stride + 1;
      strides[1 + i] = axis.stride;
    }
    values.push_back(x.slice(starts, limits, strides));
  });
  return values;
}

namespace {

/// Operands and sizes of one convolution.
struct Conv {
  Node &node;
  Windows windows;
  Tensor x, weight; // [N, spatial.., C], [M, C / groups, kernel..]
  int64_t groups, channels, results;

  Tensor depthwise();
  Tensor product();
};

} // namespace

/// One input channel per group: result[.., g * m + j] = sum over e of x_e[.., g] * w[g * m + j, e].
Tensor Conv::depthwise() {
  int64_t elements = windows.elements(), multiplier = results / groups;
  Tensor scales = weight.reshape({results, elements}).transpose({1, 0});
  Sizes shape(x.shape());
  llvm::copy(windows.results(), shape.begin() + 1);
  int64_t rank = shape.size();
  Tensor sum;
  for (auto [e, seen] : llvm::enumerate(windows.slices(x, 0))) {
    Tensor scale = scales.part(0, e, e + 1).reshape({results});
    if (multiplier > 1)
      seen = seen.unsqueeze(rank)
                 .broadcast(withDim(shape, rank, multiplier))
                 .reshape(withSize(shape, rank - 1, results));
    Tensor term = seen * scale;
    sum = sum ? sum + term : term;
    if (!sum)
      return {};
  }
  return sum;
}

/// Returns the product of [rows, elements * C / groups] with the weights, group by group.
Tensor Conv::product() {
  int64_t elements = windows.elements(), mine = channels / groups, outputs = results / groups;
  Tensor seen;
  if (windows.tile()) {
    seen = windows.cut(x);
  } else {
    SmallVector<Tensor> parts = windows.slices(x, 0);
    if (parts.empty())
      return {}; // after an error
    seen = node.joined(parts, x.rank() - 1);
  }
  int64_t batch = x.dim(0), rows;
  if (__builtin_mul_overflow(batch, windows.places(), &rows))
    return {};
  // [M, C / groups, elements] -> [M, elements, C / groups]: channels are last here, too.
  Tensor turned = weight.reshape({results, mine, elements}).transpose({0, 2, 1});
  Sizes shape = joinedSizes({{batch}, windows.results(), {results}});
  if (groups == 1)
    return matmul(seen.reshape({rows, elements * mine}), turned.reshape({results, elements * mine}),
                  false, true)
        .reshape(shape);
  Tensor left = seen.reshape({rows, elements, groups, mine})
                    .transpose({2, 0, 1, 3})
                    .reshape({groups, rows, elements * mine});
  Tensor right = turned.reshape({groups, outputs, elements * mine});
  return matmul(left, right, false, true).transpose({1, 0, 2}).reshape(shape);
}

static LogicalResult importConv(Node &node) {
  if (failed(checkConvolution(node, 4, "convolutions of one and two", /*isTransposed=*/false)))
    return failure();
  auto input = node.input(0).type(), kernel = node.input(1).type();
  int64_t groups = node.intAttr("group", 1);
  int64_t channels = input.getDimSize(1), results = kernel.getDimSize(0);
  bool depthwise = groups == channels && groups > 1;
  Windows windows(node);
  if (failed(windows.read(input.getShape().drop_front(2), kernel.getShape().drop_front(2),
                          depthwise,
                          "kernel of {} elements whose windows overlap, or are padded,")))
    return failure();
  Conv conv{node, windows, channelsLast(node.input(0)), node.input(1), groups, channels, results};
  if (!conv.x)
    return failure();
  return setWithBias(node, depthwise ? conv.depthwise() : conv.product(), results);
}

template <typename OpT> Tensor Windows::pool(Tensor x, double padding, nn::ReduceKind kind) {
  if (!x)
    return {};
  if (tile())
    return split(x).reduce(kind, {int64_t(axes.size()) + 1}, false);
  Tensor result;
  for (Tensor seen : slices(x, padding)) {
    result = result ? binary<OpT>(result, seen) : seen;
    if (!result)
      return {};
  }
  return result;
}

Tensor Windows::counts(Type element, bool padding) {
  Sizes shape = {1};
  Windows plain(*this);
  for (auto [axis, own] : llvm::zip(axes, plain.axes)) {
    shape.push_back(axis.size + (padding ? axis.before + axis.after : 0));
    if (padding)
      own.before = own.after = 0;
  }
  shape.push_back(1);
  return plain.pool<nn::AddOp>(node.constant(RankedTensorType::get(shape, element), 1), 0,
                               nn::ReduceKind::Sum);
}

/// Reads the windows of a pool over [N, C, spatial..].
static LogicalResult readPool(Node &node, Windows &windows) {
  auto type = node.input(0).type();
  std::optional<Sizes> kernel = node.intsAttr("kernel_shape");
  if (type.getRank() < 3 || !kernel || int64_t(kernel->size()) != type.getRank() - 2)
    return node.error("needs a kernel_shape for the spatial dimensions of {}", type);
  return windows.read(type.getShape().drop_front(2), *kernel, /*needsSlices=*/false,
                      "window of {} elements that overlaps others, or is padded,");
}

static Tensor importAveragePool(Node &node) {
  Windows windows(node);
  if (failed(readPool(node, windows)))
    return {};
  Type element = node.input(0).element();
  Tensor sum = windows.pool<nn::AddOp>(channelsLast(node.input(0)), 0, nn::ReduceKind::Sum);
  Tensor count = windows.counts(element, node.flagAttr("count_include_pad", false));
  return channelsSecond(sum / count);
}

/// Returns the largest floats of the windows, [N, results.., C]. Of equal ones the first gets the
/// gradient, as in PyTorch. Null after an error.
static Tensor largestOf(Node &node, Windows &windows, Tensor x) {
  if (!x)
    return {};
  if (windows.tile()) {
    int64_t dim = x.rank() - 1;
    Tensor first = firstExtreme(nn::ReduceKind::Max, windows.split(x), dim);
    return first.sum({dim}, false);
  }
  Tensor result;
  for (Tensor seen : windows.slices(x, -std::numeric_limits<double>::infinity())) {
    if (result) {
      Tensor isMore = (seen > result) | differ(seen, seen); // NaN
      seen = select(isMore, seen, result);
    }
    if (!seen)
      return {};
    result = seen;
  }
  return result;
}

static Tensor importMaxPool(Node &node) {
  Windows windows(node);
  if (failed(readPool(node, windows)))
    return {};
  if (node.wants(1))
    return node.error("its result of indices is not supported");
  Tensor x = channelsLast(node.input(0)), result;
  if (node.input(0).hasFloats())
    result = largestOf(node, windows, x);
  else // a power of two is exact in doubles
    result = windows.pool<nn::MaxOp>(
        x, -std::ldexp(1, node.input(0).type().getElementTypeBitWidth() - 1), nn::ReduceKind::Max);
  return channelsSecond(result);
}

/// One place of all spatial dimensions: their first largest element.
static Tensor importGlobalMaxPool(Node &node) {
  ArrayRef<int64_t> shape = node.input(0).shape();
  int64_t places = llvm::product_of(shape.drop_front(2));
  if (places == 0)
    return node.error("a spatial dimension of the operand is empty");
  Sizes one(shape.size(), 1);
  std::copy_n(shape.begin(), 2, one.begin());
  Tensor flat = node.input(0).reshape({shape[0], shape[1], places});
  return firstExtreme(nn::ReduceKind::Max, flat, 2).reshape(one);
}

/// One place of all spatial dimensions: their mean.
static Tensor importGlobalAveragePool(Node &node) {
  ArrayRef<int64_t> shape = node.input(0).shape();
  return node.input(0).sum(dimRange(2, shape.size()), true) /
         double(llvm::product_of(shape.drop_front(2)));
}

bool onnx::isLaterRow(Operation *op) {
  auto slice = dyn_cast<nn::SliceOp>(op);
  auto pad = slice ? slice.getInput().getDefiningOp<nn::PadOp>() : nn::PadOp();
  if (!pad || !isa<FloatType>(slice.getType().getElementType()))
    return false;
  ArrayRef<int64_t> shape = pad.getInput().getType().getShape();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] > 1 && pad.getHigh()[dim] > 0 && slice.getStrides()[dim] == 1 &&
        slice.getStarts()[dim] > pad.getLow()[dim] && slice.getType().getDimSize(dim) == shape[dim])
      return true;
  return false;
}

void onnx::registerConvOps(HandlerRegistry &r) {
  r.add("", "Conv", 1, importConv, needs(2));
  r.add("", "AveragePool", 7, importAveragePool, floats(1));
  r.add("", "MaxPool", 8, importMaxPool, numbers(1));
  r.add("", "GlobalAveragePool", 1, importGlobalAveragePool, floats(1) | rank(3));
  r.add("", "GlobalMaxPool", 1, importGlobalMaxPool, floats(1) | rank(3));
}
