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
  SmallVector<int64_t> results() const { return axes.list(&SpatialAxis::result); }
  /// Turns [N, spatial.., C] into [N, results.., elements * C]; the windows must tile.
  Value cut(Value x);
  /// Turns it into [N, results.., elements, C].
  Value split(Value x);
  /// Returns the input that each kernel element reads: [N, results.., C]. Empty, or with null
  /// values, after an error.
  SmallVector<Value> slices(Value x, double padding);
  /// Combines the elements of each window: [N, results.., C].
  template <typename OpT> Value pool(Value x, double padding, nn::ReduceKind kind);
  /// Returns how many elements each window has, [1, results.., 1], with or without padding.
  Value counts(Type element, bool padding);

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

Value Windows::cut(Value x) {
  if (!x)
    return {};
  auto type = Node::type(x);
  int64_t rank = type.getRank();
  // No window reads the elements that are left over at the end.
  Sizes starts(rank, 0), limits(type.getShape()), strides(rank, 1);
  SmallVector<int64_t> split = {type.getDimSize(0)}, perm = {0}, shape = split;
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
  x = node.slice(x, starts, limits, strides);
  return node.reshape(node.transpose(node.reshape(x, split), perm), shape);
}

Value Windows::split(Value x) {
  auto type = Node::type(x);
  return node.reshape(
      cut(x), joinedSizes({{type.getDimSize(0)}, results(), {elements(), type.getShape().back()}}));
}

SmallVector<Value> Windows::slices(Value x, double padding) {
  Sizes none(Node::type(x).getRank(), 0), low(none), high(none);
  for (auto [i, axis] : llvm::enumerate(axes)) {
    low[1 + i] = axis.before;
    high[1 + i] = axis.after + axis.beyond;
  }
  if (low != none || high != none)
    x = node.padded(x, low, high, none, padding);
  SmallVector<Value> values;
  axes.forEachElement([&](ArrayRef<int64_t> at) {
    if (!x)
      return;
    SmallVector<int64_t> starts(none), limits(Node::type(x).getShape()), strides(none.size(), 1);
    for (auto [i, axis] : llvm::enumerate(axes)) {
      starts[1 + i] = at[i] * axis.dilation;
      limits[1 + i] = starts[1 + i] + (axis.result - 1) * axis.stride + 1;
      strides[1 + i] = axis.stride;
    }
    values.push_back(node.slice(x, starts, limits, strides));
  });
  return values;
}

namespace {

/// Operands and sizes of one convolution.
struct Conv {
  Node &node;
  Windows windows;
  Value x, weight; // [N, spatial.., C], [M, C / groups, kernel..]
  int64_t groups, channels, results;

  Value depthwise();
  Value product();
};

} // namespace

/// One input channel per group: result[.., g * m + j] = sum over e of x_e[.., g] * w[g * m + j, e].
Value Conv::depthwise() {
  int64_t elements = windows.elements(), multiplier = results / groups;
  Value scales = node.transpose(node.reshape(weight, {results, elements}), {1, 0});
  Sizes shape(Node::type(x).getShape());
  llvm::copy(windows.results(), shape.begin() + 1);
  int64_t rank = shape.size();
  Value sum;
  for (auto [e, seen] : llvm::enumerate(windows.slices(x, 0))) {
    Value scale = node.reshape(node.part(scales, 0, e, e + 1), {results});
    if (multiplier > 1)
      seen =
          node.reshape(node.broadcast(node.unsqueeze(seen, rank), withDim(shape, rank, multiplier)),
                       withSize(shape, rank - 1, results));
    Value term = node.mul(seen, scale);
    sum = sum ? node.add(sum, term) : term;
    if (!sum)
      return {};
  }
  return sum;
}

/// Returns the product of [rows, elements * C / groups] with the weights, group by group.
Value Conv::product() {
  int64_t elements = windows.elements(), mine = channels / groups, outputs = results / groups;
  Value seen;
  if (windows.tile()) {
    seen = windows.cut(x);
  } else {
    SmallVector<Value> parts = windows.slices(x, 0);
    if (parts.empty())
      return {}; // after an error
    seen = node.joined(parts, Node::type(x).getRank() - 1);
  }
  int64_t batch = Node::type(x).getDimSize(0), rows;
  if (__builtin_mul_overflow(batch, windows.places(), &rows))
    return {};
  // [M, C / groups, elements] -> [M, elements, C / groups]: channels are last here, too.
  Value turned = node.transpose(node.reshape(weight, {results, mine, elements}), {0, 2, 1});
  Sizes shape = joinedSizes({{batch}, windows.results(), {results}});
  if (groups == 1)
    return node.reshape(node.matmul(node.reshape(seen, {rows, elements * mine}),
                                    node.reshape(turned, {results, elements * mine}), false, true),
                        shape);
  Value left =
      node.reshape(node.transpose(node.reshape(seen, {rows, elements, groups, mine}), {2, 0, 1, 3}),
                   {groups, rows, elements * mine});
  Value right = node.reshape(turned, {groups, outputs, elements * mine});
  return node.reshape(node.transpose(node.matmul(left, right, false, true), {1, 0, 2}), shape);
}

static LogicalResult importConv(Node &node) {
  if (failed(checkConvolution(node, 4, "convolutions of one and two", /*isTransposed=*/false)))
    return failure();
  auto input = Node::type(node.input(0)), kernel = Node::type(node.input(1));
  int64_t groups = node.intAttr("group", 1);
  int64_t channels = input.getDimSize(1), results = kernel.getDimSize(0);
  bool depthwise = groups == channels && groups > 1;
  Windows windows(node);
  if (failed(windows.read(input.getShape().drop_front(2), kernel.getShape().drop_front(2),
                          depthwise,
                          "kernel of {} elements whose windows overlap, or are padded,")))
    return failure();
  Conv conv{node,     windows, channelsLast(node, node.input(0)), node.input(1), groups,
            channels, results};
  if (!conv.x)
    return failure();
  return setWithBias(node, depthwise ? conv.depthwise() : conv.product(), results);
}

template <typename OpT> Value Windows::pool(Value x, double padding, nn::ReduceKind kind) {
  if (!x)
    return {};
  if (tile())
    return node.reduce(kind, split(x), {int64_t(axes.size()) + 1}, false);
  Value result;
  for (Value seen : slices(x, padding)) {
    result = result ? node.binary<OpT>(result, seen) : seen;
    if (!result)
      return {};
  }
  return result;
}

Value Windows::counts(Type element, bool padding) {
  SmallVector<int64_t> shape = {1};
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
  auto type = Node::type(node.input(0));
  std::optional<SmallVector<int64_t>> kernel = node.intsAttr("kernel_shape");
  if (type.getRank() < 3 || !kernel || int64_t(kernel->size()) != type.getRank() - 2)
    return node.error("needs a kernel_shape for the spatial dimensions of {}", type);
  return windows.read(type.getShape().drop_front(2), *kernel, /*needsSlices=*/false,
                      "window of {} elements that overlaps others, or is padded,");
}

static Value importAveragePool(Node &node) {
  Windows windows(node);
  if (failed(readPool(node, windows)))
    return {};
  Type element = Node::type(node.input(0)).getElementType();
  Value sum = windows.pool<nn::AddOp>(channelsLast(node, node.input(0)), 0, nn::ReduceKind::Sum);
  Value count = windows.counts(element, node.flagAttr("count_include_pad", false));
  return channelsSecond(node, node.div(sum, count));
}

/// Returns the largest floats of the windows, [N, results.., C]. Of equal ones the first gets the
/// gradient, as in PyTorch. Null after an error.
static Value largestOf(Node &node, Windows &windows, Value x) {
  if (!x)
    return {};
  if (windows.tile()) {
    int64_t dim = Node::type(x).getRank() - 1;
    Value first = firstExtreme(node, nn::ReduceKind::Max, windows.split(x), dim);
    return node.sum(first, {dim}, false);
  }
  Value result;
  for (Value seen : windows.slices(x, -std::numeric_limits<double>::infinity())) {
    if (result) {
      Value isMore = node.either(node.binary(seen, result, nn::Predicate::GT),
                                 node.binary(seen, seen, nn::Predicate::NE)); // NaN
      seen = node.select(isMore, seen, result);
    }
    if (!seen)
      return {};
    result = seen;
  }
  return result;
}

static Value importMaxPool(Node &node) {
  Windows windows(node);
  if (failed(readPool(node, windows)))
    return {};
  if (node.wants(1))
    return node.error("its result of indices is not supported");
  Value x = channelsLast(node, node.input(0)), result;
  if (Node::hasFloats(node.input(0)))
    result = largestOf(node, windows, x);
  else // a power of two is exact in doubles
    result = windows.pool<nn::MaxOp>(
        x, -std::ldexp(1, Node::type(node.input(0)).getElementTypeBitWidth() - 1),
        nn::ReduceKind::Max);
  return channelsSecond(node, result);
}

/// One place of all spatial dimensions: their first largest element.
static Value importGlobalMaxPool(Node &node) {
  if (failed(checkChannels(node, 3)))
    return {};
  ArrayRef<int64_t> shape = Node::type(node.input(0)).getShape();
  int64_t places = llvm::product_of(shape.drop_front(2));
  if (places == 0)
    return node.error("a spatial dimension of the operand is empty");
  Sizes one(shape.size(), 1);
  std::copy_n(shape.begin(), 2, one.begin());
  Value flat = node.reshape(node.input(0), {shape[0], shape[1], places});
  return node.reshape(firstExtreme(node, nn::ReduceKind::Max, flat, 2), one);
}

/// One place of all spatial dimensions: their mean.
static Value importGlobalAveragePool(Node &node) {
  if (failed(checkChannels(node, 3)))
    return {};
  ArrayRef<int64_t> shape = Node::type(node.input(0)).getShape();
  return node.div(node.sum(node.input(0), dimRange(2, shape.size()), true),
                  double(llvm::product_of(shape.drop_front(2))));
}

bool onnx::isLaterRow(Operation *op) {
  auto slice = dyn_cast<nn::SliceOp>(op);
  auto pad = slice ? slice.getInput().getDefiningOp<nn::PadOp>() : nn::PadOp();
  if (!pad || !Node::hasFloats(slice))
    return false;
  ArrayRef<int64_t> shape = Node::type(pad.getInput()).getShape();
  for (size_t dim = 0; dim < shape.size(); ++dim)
    if (shape[dim] > 1 && pad.getHigh()[dim] > 0 && slice.getStrides()[dim] == 1 &&
        slice.getStarts()[dim] > pad.getLow()[dim] &&
        Node::type(slice.getResult()).getDimSize(dim) == shape[dim])
      return true;
  return false;
}

void onnx::registerConvOps(HandlerRegistry &r) {
  r.add("", "Conv", 1, importConv, needs(2));
  r.add("", "AveragePool", 7, importAveragePool, floats(1));
  r.add("", "MaxPool", 8, importMaxPool, numbers(1));
  r.add("", "GlobalAveragePool", 1, importGlobalAveragePool, floats(1));
  r.add("", "GlobalMaxPool", 1, importGlobalMaxPool, floats(1));
}
