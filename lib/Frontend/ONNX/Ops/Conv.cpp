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
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Maximum number of slices; overlapping windows cost one per kernel element.
constexpr int64_t kMaxSlices = 256;

/// One spatial dimension.
struct Axis {
  int64_t size, kernel, stride = 1, dilation = 1, before = 0, after = 0;
  int64_t extent = 0, result = 0; // span of the dilated kernel; places of the result
  int64_t beyond = 0;             // elements that the last window reads after all padding

  bool tiles() const {
    return stride == kernel && dilation == 1 && before == 0 && after == 0 && beyond == 0;
  }
};

class Windows {
public:
  explicit Windows(Node &node) : node(node) {}
  LogicalResult read(ArrayRef<int64_t> sizes, ArrayRef<int64_t> kernel);
  bool tile() const {
    return llvm::all_of(axes, [](const Axis &axis) { return axis.tiles(); });
  }
  int64_t elements() const { return count(&Axis::kernel); }
  int64_t places() const { return count(&Axis::result); }
  SmallVector<int64_t> results() const { return list(&Axis::result); }
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
  int64_t count(int64_t Axis::*field) const {
    int64_t product = 1;
    for (const Axis &axis : axes)
      product *= axis.*field;
    return product;
  }
  SmallVector<int64_t> list(int64_t Axis::*field) const {
    SmallVector<int64_t> values;
    for (const Axis &axis : axes)
      values.push_back(axis.*field);
    return values;
  }
  LogicalResult readPads();
  LogicalResult readList(StringRef name, int64_t Axis::*field);

  Node &node;
  SmallVector<Axis> axes;
};

} // namespace

/// Transposes a value; a transpose of a transpose becomes one.
static Value transposed(Node &node, Value value, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> all(perm);
  if (value)
    if (auto inner = value.getDefiningOp<nn::TransposeOp>()) {
      for (int64_t &p : all)
        p = inner.getPerm()[p];
      value = inner.getInput();
    }
  return node.transpose(value, all);
}

Value onnx::channelsLast(Node &node, Value value) {
  if (!value)
    return {};
  int64_t rank = Node::type(value).getRank();
  SmallVector<int64_t> perm = {0};
  llvm::append_range(perm, llvm::seq<int64_t>(2, rank));
  perm.push_back(1);
  return ::transposed(node, value, perm);
}

Value onnx::channelsSecond(Node &node, Value value) {
  if (!value)
    return {};
  int64_t rank = Node::type(value).getRank();
  SmallVector<int64_t> perm = {0, rank - 1};
  llvm::append_range(perm, llvm::seq<int64_t>(1, rank - 1));
  return ::transposed(node, value, perm);
}

FailureOr<SmallVector<int64_t>> onnx::readSpatial(Node &node, StringRef name, size_t count,
                                                  int64_t least) {
  std::optional<SmallVector<int64_t>> values = node.intsAttr(name);
  if (!values)
    return SmallVector<int64_t>();
  if (values->size() != count)
    return (void)node.error(name + " has " + Twine(values->size()) + " values for " + Twine(count) +
                            " spatial dimensions"),
           failure();
  for (int64_t value : *values)
    if (value < least || value > INT32_MAX)
      return (void)node.error(name + " has the value " + Twine(value)), failure();
  return *values;
}

LogicalResult Windows::readList(StringRef name, int64_t Axis::*field) {
  auto values = readSpatial(node, name, axes.size(), 1);
  if (failed(values))
    return failure();
  for (auto [axis, value] : llvm::zip(axes, *values)) // none if the node lacks it
    axis.*field = value;
  return success();
}

LogicalResult Windows::readPads() {
  std::string mode = node.stringAttr("auto_pad", "NOTSET");
  SmallVector<int64_t> pads =
      node.intsAttr("pads").value_or(SmallVector<int64_t>(axes.size() * 2, 0));
  if (mode != "NOTSET" && mode != "VALID" && mode != "SAME_UPPER" && mode != "SAME_LOWER")
    return node.error("auto_pad '" + displayName(mode) +
                      "' is not one of NOTSET, VALID, SAME_UPPER, SAME_LOWER");
  if (pads.size() != axes.size() * 2)
    return node.error("pads has " + Twine(pads.size()) + " values for " + Twine(axes.size()) +
                      " spatial dimensions");
  for (auto [i, axis] : llvm::enumerate(axes)) {
    axis.extent = (axis.kernel - 1) * axis.dilation + 1;
    if (mode == "NOTSET") {
      axis.before = pads[i];
      axis.after = pads[axes.size() + i];
      if (axis.before < 0 || axis.after < 0 || axis.before > INT32_MAX || axis.after > INT32_MAX)
        return node.error("pads are negative or too large");
    } else if (mode != "VALID") {
      int64_t wanted = llvm::divideCeil(axis.size, axis.stride);
      int64_t missing = std::max<int64_t>(0, (wanted - 1) * axis.stride + axis.extent - axis.size);
      axis.before = (missing + (mode == "SAME_LOWER" ? 1 : 0)) / 2;
      axis.after = missing - axis.before;
    }
    int64_t room = axis.size + axis.before + axis.after - axis.extent;
    if (room < 0)
      return node.error("the kernel spans " + Twine(axis.extent) +
                        " elements of a dimension that has " +
                        Twine(axis.size + axis.before + axis.after) + " with its padding");
    axis.result = room / axis.stride + 1;
    if (mode == "NOTSET" && node.flagAttr("ceil_mode", false)) {
      int64_t places = llvm::divideCeil(room, axis.stride) + 1;
      // The last window begins in the input or in the padding before it.
      if ((places - 1) * axis.stride >= axis.size + axis.before)
        --places;
      axis.beyond = std::max<int64_t>(0, (places - 1) * axis.stride - room);
      axis.result = places;
    }
  }
  return success();
}

LogicalResult Windows::read(ArrayRef<int64_t> sizes, ArrayRef<int64_t> kernel) {
  for (auto [size, extent] : llvm::zip(sizes, kernel)) {
    if (size < 1 || size > INT32_MAX || extent < 1 || extent > INT32_MAX)
      return node.error("a spatial dimension of input or kernel is empty or too large");
    axes.push_back({size, extent});
  }
  if (failed(readList("strides", &Axis::stride)) ||
      failed(readList("dilations", &Axis::dilation)) || failed(readPads()) ||
      node.attributesAreBad())
    return failure();
  return success();
}

Value Windows::cut(Value x) {
  if (!x)
    return {};
  auto type = Node::type(x);
  int64_t rank = type.getRank();
  // No window reads the elements that are left over at the end.
  SmallVector<int64_t> starts(rank, 0), limits(type.getShape()), strides(rank, 1);
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

SmallVector<Value> Windows::slices(Value x, double padding) {
  auto type = Node::type(x);
  int64_t rank = type.getRank();
  SmallVector<int64_t> low(rank, 0), high(rank, 0), interior(rank, 0), shape(type.getShape());
  for (auto [i, axis] : llvm::enumerate(axes)) {
    low[1 + i] = axis.before;
    high[1 + i] = axis.after + axis.beyond;
    shape[1 + i] += axis.before + high[1 + i];
  }
  auto padded = RankedTensorType::get(shape, type.getElementType());
  if (padded != type)
    x = node.create<nn::PadOp>(
        padded, x, node.builder.getDenseI64ArrayAttr(low), node.builder.getDenseI64ArrayAttr(high),
        node.builder.getDenseI64ArrayAttr(interior), node.builder.getF64FloatAttr(padding));
  SmallVector<Value> values;
  SmallVector<int64_t> at(axes.size(), 0);
  for (int64_t n = elements(); n > 0 && x; --n) {
    SmallVector<int64_t> starts(rank, 0), limits(shape), strides(rank, 1);
    for (auto [i, axis] : llvm::enumerate(axes)) {
      starts[1 + i] = at[i] * axis.dilation;
      limits[1 + i] = starts[1 + i] + (axis.result - 1) * axis.stride + 1;
      strides[1 + i] = axis.stride;
    }
    values.push_back(node.slice(x, starts, limits, strides));
    for (size_t i = axes.size(); i-- > 0;) {
      if (++at[i] < axes[i].kernel)
        break;
      at[i] = 0;
    }
  }
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
  SmallVector<int64_t> shape(Node::type(x).getShape());
  llvm::copy(windows.results(), shape.begin() + 1);
  SmallVector<int64_t> spread(shape), wide(shape), flat(shape);
  spread.push_back(1);
  wide.push_back(multiplier);
  flat.back() = results;
  Value sum;
  for (auto [e, seen] : llvm::enumerate(windows.slices(x, 0))) {
    Value scale = node.reshape(
        node.slice(scales, {int64_t(e), 0}, {int64_t(e) + 1, results}, {1, 1}), {results});
    if (multiplier > 1)
      seen = node.reshape(node.broadcast(node.reshape(seen, spread), wide), flat);
    Value term = node.binary<nn::MulOp>(seen, scale);
    sum = sum ? node.binary<nn::AddOp>(sum, term) : term;
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
    if (parts.empty() || llvm::is_contained(parts, Value()))
      return {}; // after an error
    SmallVector<int64_t> shape(Node::type(parts.front()).getShape());
    shape.back() *= elements;
    int64_t last = shape.size() - 1;
    seen = parts.size() == 1
               ? parts.front()
               : node.create<nn::ConcatOp>(
                     RankedTensorType::get(shape, Node::type(x).getElementType()), parts, last);
  }
  if (!seen)
    return {};
  int64_t batch = Node::type(x).getDimSize(0), rows;
  if (__builtin_mul_overflow(batch, windows.places(), &rows))
    return {};
  // [M, C / groups, elements] -> [M, elements, C / groups]: channels are last here, too.
  Value turned = node.transpose(node.reshape(weight, {results, mine, elements}), {0, 2, 1});
  SmallVector<int64_t> shape = {batch};
  llvm::append_range(shape, windows.results());
  shape.push_back(results);
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
  if (failed(node.require(2)))
    return failure();
  auto input = Node::type(node.input(0)), kernel = Node::type(node.input(1));
  int64_t rank = input.getRank();
  if ((rank != 3 && rank != 4) || kernel.getRank() != rank)
    return node.error(
        "convolutions of one and two dimensions are supported; input and weight are " +
        Node::name(input) + " and " + Node::name(kernel));
  if (input.getElementType() != kernel.getElementType() || !isa<FloatType>(input.getElementType()))
    return node.error("input and weight have element types " + Node::name(input.getElementType()) +
                      " and " + Node::name(kernel.getElementType()));
  int64_t groups = node.intAttr("group", 1);
  int64_t channels = input.getDimSize(1), results = kernel.getDimSize(0);
  if (groups < 1 || channels % groups != 0 || results % groups != 0 ||
      kernel.getDimSize(1) != channels / groups)
    return node.error(Twine(groups) + " groups of input " + Node::name(input) + " and weight " +
                      Node::name(kernel) + " do not fit");
  if (auto shape = node.intsAttr("kernel_shape");
      shape && ArrayRef<int64_t>(*shape) != kernel.getShape().drop_front(2))
    return node.error("kernel_shape is not that of the weight " + Node::name(kernel));
  Windows windows(node);
  if (failed(windows.read(input.getShape().drop_front(2), kernel.getShape().drop_front(2))))
    return failure();
  bool depthwise = groups == channels && groups > 1;
  if ((depthwise || !windows.tile()) && windows.elements() > kMaxSlices)
    return node.error("a kernel of " + Twine(windows.elements()) +
                      " elements whose windows overlap, or are padded, is too large: at most " +
                      Twine(kMaxSlices) + " are supported");
  Conv conv{node,     windows, channelsLast(node, node.input(0)), node.input(1), groups,
            channels, results};
  if (!conv.x)
    return failure();
  Value result = depthwise ? conv.depthwise() : conv.product();
  if (Value bias = node.input(2); result && bias) {
    auto type = Node::type(bias);
    if (type.getRank() != 1 || type.getDimSize(0) != results)
      return node.error("the bias is " + Node::name(type) + " for " + Twine(results) + " channels");
    result = node.binary<nn::AddOp>(result, bias);
  }
  node.set(0, channelsSecond(node, result));
  return success();
}

Value Windows::split(Value x) {
  auto type = Node::type(x);
  SmallVector<int64_t> shape = {type.getDimSize(0)};
  llvm::append_range(shape, results());
  shape.append({elements(), type.getShape().back()});
  return node.reshape(cut(x), shape);
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
  if (failed(node.require(1)))
    return failure();
  auto type = Node::type(node.input(0));
  std::optional<SmallVector<int64_t>> kernel = node.intsAttr("kernel_shape");
  if (failed(node.requireNumbers(0)))
    return failure();
  if (type.getRank() < 3 || !kernel || int64_t(kernel->size()) != type.getRank() - 2)
    return node.error("needs a kernel_shape for the spatial dimensions of " + Node::name(type));
  if (failed(windows.read(type.getShape().drop_front(2), *kernel)))
    return failure();
  if (!windows.tile() && windows.elements() > kMaxSlices)
    return node.error("a window of " + Twine(windows.elements()) +
                      " elements that overlaps others, or is padded, is too large: at most " +
                      Twine(kMaxSlices) + " are supported");
  return success();
}

static LogicalResult importAveragePool(Node &node) {
  Windows windows(node);
  if (failed(node.requireFloats(1)) || failed(readPool(node, windows)))
    return failure();
  Type element = Node::type(node.input(0)).getElementType();
  Value sum = windows.pool<nn::AddOp>(channelsLast(node, node.input(0)), 0, nn::ReduceKind::Sum);
  Value count = windows.counts(element, node.flagAttr("count_include_pad", false));
  node.set(0, channelsSecond(node, node.binary<nn::DivOp>(sum, count)));
  return success();
}

/// Returns the largest floats of the windows, [N, results.., C]. Of equal ones the first gets the
/// gradient, as in PyTorch. Null after an error.
static Value largestOf(Node &node, Windows &windows, Value x) {
  if (!x)
    return {};
  if (windows.tile()) {
    Value parts = windows.split(x);
    int64_t dim = Node::type(x).getRank() - 1;
    Value first = parts ? firstExtreme(node, nn::ReduceKind::Max, parts, dim) : Value();
    return first ? node.reduce(nn::ReduceKind::Sum, first, {dim}, false) : Value();
  }
  Value result;
  for (Value seen : windows.slices(x, -std::numeric_limits<double>::infinity())) {
    if (!seen)
      return {};
    if (!result) {
      result = seen;
      continue;
    }
    Value isMore = node.binary<nn::OrOp>(node.binary(seen, result, nn::Predicate::GT),
                                         node.binary(seen, seen, nn::Predicate::NE)); // NaN
    result = isMore ? node.create<nn::SelectOp>(result.getType(), isMore, seen, result) : Value();
    if (!result)
      return {};
  }
  return result;
}

static LogicalResult importMaxPool(Node &node) {
  Windows windows(node);
  if (failed(readPool(node, windows)))
    return failure();
  if (node.wants(1))
    return node.error("its result of indices is not supported");
  Value x = channelsLast(node, node.input(0)), result;
  if (Type element = Node::type(node.input(0)).getElementType(); isa<FloatType>(element))
    result = largestOf(node, windows, x);
  else // a power of two is exact in doubles
    result = windows.pool<nn::MaxOp>(x, -std::ldexp(1, element.getIntOrFloatBitWidth() - 1),
                                     nn::ReduceKind::Max);
  node.set(0, channelsSecond(node, result));
  return success();
}

/// Returns the number of places of an operand [N, C, spatial..], or -1 after an error.
static int64_t placesOf(Node &node) {
  if (failed(node.requireFloats(1)))
    return -1;
  auto type = Node::type(node.input(0));
  if (type.getRank() < 3)
    (void)node.error("the operand must have a batch, channels and spatial dimensions; it is " +
                     Node::name(type));
  return type.getRank() < 3 ? -1 : llvm::product_of(type.getShape().drop_front(2));
}

/// One place of all spatial dimensions: their first largest element.
static LogicalResult importGlobalMaxPool(Node &node) {
  int64_t places = placesOf(node);
  if (places < 0)
    return failure();
  if (places == 0)
    return node.error("a spatial dimension of the operand is empty");
  ArrayRef<int64_t> shape = Node::type(node.input(0)).getShape();
  SmallVector<int64_t> one(shape.size(), 1);
  std::copy_n(shape.begin(), 2, one.begin());
  Value flat = node.reshape(node.input(0), {shape[0], shape[1], places});
  Value first = flat ? firstExtreme(node, nn::ReduceKind::Max, flat, 2) : Value();
  node.set(0, first ? node.reshape(first, one) : Value());
  return success();
}

/// One place of all spatial dimensions: their mean.
static LogicalResult importGlobalAveragePool(Node &node) {
  int64_t places = placesOf(node);
  if (places < 0)
    return failure();
  int64_t rank = Node::type(node.input(0)).getRank();
  Value sum = node.reduce(nn::ReduceKind::Sum, node.input(0),
                          llvm::to_vector(llvm::seq<int64_t>(2, rank)), true);
  node.set(0, sum ? node.binary<nn::DivOp>(sum, node.constant(Node::type(sum), double(places)))
                  : Value());
  return success();
}

bool onnx::isLaterRow(Operation *op) {
  auto slice = dyn_cast<nn::SliceOp>(op);
  auto pad = slice ? slice.getInput().getDefiningOp<nn::PadOp>() : nn::PadOp();
  if (!pad || !isa<FloatType>(Node::type(slice.getResult()).getElementType()))
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
  r.add("", "Conv", 1, importConv);
  r.add("", "AveragePool", 7, importAveragePool);
  r.add("", "MaxPool", 8, importMaxPool);
  r.add("", "GlobalAveragePool", 1, importGlobalAveragePool);
  r.add("", "GlobalMaxPool", 1, importGlobalMaxPool);
}
