//===- Conv.cpp - Convolutions, their transposes, and pools ---------------===//
//
// A convolution is a matmul of the weights with the input window at each place
// of the result. It is built from ops that have gradients and sharding rules:
//
//   - windows that tile the input (the patches of a vision transformer, 1x1) are
//     extracted by a reshape and a transpose: no element is copied twice;
//   - other windows take one strided slice of the padded input per kernel
//     element, concatenated: a copy of the input for each;
//   - with one input channel per group (depthwise) there is no matmul:
//     the slices are scaled and added up.
//
// A transposed convolution is one matmul, which gives what each input place adds to the result
// under each kernel element, and a placement. Kernels that tile the result (an upsampling by their
// own size) place these by a transpose and a reshape; otherwise they are spread by the stride,
// padded to the result's size, and added up, one term for each kernel element. Col2Im (PyTorch's
// fold) has the terms as its operand.
//
// Everything is computed with channels last, like the rest of the model.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// [N, C, spatial..] to [N, spatial.., C] and back. Null after an error.
static Tensor channelsLast(Tensor value) {
  return value ? value.transpose(dimToEnd(value.rank(), 1), /*joined=*/true) : Tensor();
}
static Tensor channelsSecond(Tensor value) {
  int64_t last = value.rank() - 1;
  return value ? value.transpose(joinedSizes({{0, last}, dimRange(1, last)}), /*joined=*/true)
               : Tensor();
}

namespace {

/// Maximum number of elements of a kernel whose windows overlap: each costs a slice or a term.
constexpr int64_t kMaxElements = 256;
constexpr StringRef kAutoPads[] = {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"};

/// One spatial dimension, and the kernel along it.
struct Axis {
  int64_t size, kernel, stride = 1, dilation = 1;
  int64_t before = 0, after = 0; // padding, or what is cut off
  int64_t result = 0;            // places of the result
  int64_t beyond = 0;            // elements that the last window reads after all padding
  /// For transposed convolutions: the number of elements that are added at the end, and the size of
  /// the result before `before` elements at its begin and `after` at its end are cut off.
  int64_t extra = 0, canvas = 0;

  /// The span of the dilated kernel.
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

bool isSize(int64_t number) { return number >= 1 && number <= INT32_MAX; }

/// The spatial dimensions of a node, in order.
struct Windows : SmallVector<Axis> {
  Node &node;

  explicit Windows(Node &node) : node(node) {}

  /// Returns a number of each dimension, and the product of them, or INT64_MAX beyond it.
  Sizes list(int64_t Axis::*field) const {
    return llvm::map_to_vector(*this, [&](const Axis &axis) { return axis.*field; });
  }
  int64_t count(int64_t Axis::*field) const {
    int64_t product = 1;
    for (int64_t number : list(field))
      if (llvm::MulOverflow(product, number, product))
        return INT64_MAX;
    return product;
  }
  int64_t elements() const { return count(&Axis::kernel); }
  /// Returns the place of each kernel element; the last dimension varies fastest.
  SmallVector<Sizes> elementPlaces() const {
    SmallVector<Sizes> places{Sizes(size(), 0)};
    for (int64_t n = elements(); n > 1; --n) {
      Sizes at = places.back();
      for (size_t i = size(); i-- > 0 && ++at[i] == (*this)[i].kernel;)
        at[i] = 0;
      places.push_back(at);
    }
    return places;
  }

  /// Reads an attribute that has a value of `least` or more, in 32 bits, for each dimension.
  LogicalResult readList(StringRef name, int64_t Axis::*field, int64_t least) {
    Sizes values = node.intsAttr(name).value_or(list(field));
    if (values.size() != size())
      return node.error("{} has {} values for {} spatial dimensions", plain(name), values.size(),
                        size());
    for (auto [axis, value] : llvm::zip(*this, values)) {
      if (value < least || value > INT32_MAX)
        return node.error("{} has the value {}", plain(name), value);
      axis.*field = value;
    }
    return failure(node.hasFailed());
  }
  /// Adds dimensions and reads their strides and dilations. Fails, with an error, if sizes are not
  /// positive, or do not fit 32 bits; `what` names them.
  LogicalResult read(ArrayRef<int64_t> sizes, ArrayRef<int64_t> kernel,
                     const char *what = "a spatial dimension of input or kernel is empty or too "
                                        "large") {
    for (auto [size, extent] : llvm::zip(sizes, kernel)) {
      if (!isSize(size) || !isSize(extent))
        return node.error(what);
      push_back({size, extent});
    }
    return failure(failed(readList("strides", &Axis::stride, 1)) ||
                   failed(readList("dilations", &Axis::dilation, 1)));
  }
  /// Reads the attribute `pads`, of a value of each dimension's begin and then of each end.
  LogicalResult readPads() {
    Sizes pads = node.intsAttr("pads").value_or(Sizes(size() * 2, 0));
    if (pads.size() != size() * 2)
      return node.error("pads has {} values for {} spatial dimensions", pads.size(), size());
    for (int64_t pad : pads)
      if (pad < 0 || pad > INT32_MAX)
        return node.error("pads are negative or too large");
    for (auto [i, axis] : llvm::enumerate(*this))
      axis.before = pads[i], axis.after = pads[size() + i];
    return failure(node.hasFailed());
  }
  /// Fails, with an error, if there are too many kernel elements; `what` names their number.
  LogicalResult limit(const char *what) {
    if (elements() <= kMaxElements)
      return success();
    return node.error("{} too large: at most {} are supported", plain(say(what, {elements()})),
                      kMaxElements);
  }
};

//===----------------------------------------------------------------------===//
// Windows of an operand
//===----------------------------------------------------------------------===//

/// The windows that a convolution or a pool reads.
struct Read : Windows {
  using Windows::Windows;

  bool tile() const {
    return llvm::all_of(*this, [](const Axis &axis) {
      return axis.stride == axis.kernel && axis.dilation == 1 && axis.before == 0 &&
             axis.after == 0 && axis.beyond == 0;
    });
  }
  Sizes results() const { return list(&Axis::result); }

  /// Reads the windows, and finds the places of the result. Fails, with an error that says `what`
  /// they are, if they need too many slices. With `needsSlices` windows that tile need slices, too.
  LogicalResult readAll(ArrayRef<int64_t> kernel, bool needsSlices, const char *what) {
    if (failed(read(node.input(0).shape().drop_front(2), kernel)))
      return failure();
    std::string mode = node.choiceAttr("auto_pad", kAutoPads);
    if (failed(readPads()))
      return failure();
    for (Axis &axis : *this) {
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
        return node.error(
            "the kernel spans {} elements of a dimension that has {} with its padding", extent,
            room + extent);
      axis.result = room / axis.stride + 1;
      if (mode == "NOTSET" && node.flagAttr("ceil_mode", false)) {
        axis.result = llvm::divideCeil(room, axis.stride) + 1;
        // The last window begins in the input or in the padding before it.
        if ((axis.result - 1) * axis.stride >= axis.size + axis.before)
          --axis.result;
        axis.beyond = std::max<int64_t>(0, (axis.result - 1) * axis.stride - room);
      }
    }
    return failure(node.hasFailed() || ((needsSlices || !tile()) && failed(limit(what))));
  }

  /// Turns [N, spatial.., C] into [N, results.., elements, C]; the windows must tile.
  Tensor split(Tensor x) const {
    if (!x)
      return {};
    // No window reads the elements that are left over at the end.
    Sizes limits(x.shape()), split = {x.dim(0)}, perm = {0};
    for (auto [i, axis] : llvm::enumerate(*this)) {
      limits[1 + i] = axis.result * axis.kernel;
      split.append({axis.result, axis.kernel});
      perm.push_back(1 + 2 * i);
    }
    for (size_t i = 0; i < size(); ++i)
      perm.push_back(2 + 2 * i);
    perm.push_back(split.size());
    split.push_back(x.dim(-1));
    Sizes shape = joinedSizes({{x.dim(0)}, results(), {elements(), x.dim(-1)}});
    return x.cropped(limits).reshape(split).transpose(perm).reshape(shape);
  }
  /// Returns the input that each kernel element reads: [N, results.., C]. Null values after an
  /// error.
  SmallVector<Tensor> slices(Tensor x, double padding) const {
    Sizes none(x.rank(), 0), low(none), high(none), whole(x.shape());
    for (auto [i, axis] : llvm::enumerate(*this)) {
      low[1 + i] = axis.before;
      high[1 + i] = axis.after + axis.beyond;
    }
    if (low != none || high != none)
      x = x.padded(low, high, none, padding);
    return llvm::map_to_vector(elementPlaces(), [&](const Sizes &at) {
      Sizes starts(none), limits(whole), strides(none.size(), 1);
      for (auto [i, axis] : llvm::enumerate(*this)) {
        starts[1 + i] = at[i] * axis.dilation;
        limits[1 + i] = starts[1 + i] + (axis.result - 1) * axis.stride + 1;
        strides[1 + i] = axis.stride;
      }
      return x.slice(starts, limits, strides);
    });
  }
  /// Combines the elements of each window: [N, results.., C].
  template <typename OpT> Tensor pool(Tensor x, double padding, nn::ReduceKind kind) const {
    if (tile())
      return split(x).reduce(kind, {int64_t(size()) + 1}, false);
    Tensor result;
    for (auto [i, seen] : llvm::enumerate(slices(x, padding)))
      result = i ? binary<OpT>(result, seen) : seen;
    return result;
  }
  /// Returns how many elements each window has, [1, results.., 1], with or without padding.
  Tensor counts(Type element, bool padding) const {
    Sizes shape = {1};
    Read plain(*this);
    for (Axis &axis : plain) {
      shape.push_back(axis.size + (padding ? axis.before + axis.after : 0));
      if (padding)
        axis.before = axis.after = 0;
    }
    shape.push_back(1);
    return plain.pool<nn::AddOp>(node.constant(RankedTensorType::get(shape, element), 1), 0,
                                 nn::ReduceKind::Sum);
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// Checks operands 0 and 1 of a convolution: [N, C, sizes..], of a rank of at most `most`, and the
/// weights, [M, C / groups, kernel..], or [C, M / groups, kernel..] if it is transposed. `what`
/// names the convolutions that are supported.
static LogicalResult checkConvolution(Node &node, int64_t most, const char *what,
                                      bool isTransposed) {
  Tensor input = node.input(0), kernel = node.input(1);
  int64_t rank = input.rank(), groups = node.intAttr("group", 1);
  if (rank < 3 || rank > most || kernel.rank() != rank)
    return node.error("{} dimensions are supported; input and weight are {} and {}", what, input,
                      kernel);
  if (input.element() != kernel.element() || !input.hasFloats())
    return node.error("input and weight have element types {} and {}", input.element(),
                      kernel.element());
  int64_t channels = input.dim(1), first = kernel.dim(0);
  if (groups < 1 || channels % groups != 0 ||
      (isTransposed ? first != channels
                    : first % groups != 0 || kernel.dim(1) != channels / groups))
    return node.error("{} groups of input {} and weight {} do not fit", groups, input, kernel);
  ArrayRef<int64_t> sizes = kernel.shape().drop_front(2);
  return node.intsAttr("kernel_shape").value_or(Sizes(sizes)) == sizes
             ? success()
             : LogicalResult(node.error("kernel_shape is not that of the weight {}", kernel));
}

/// Adds operand 2, if it is there, to channels [N, sizes.., C]. Returns [N, C, sizes..].
static Tensor withBias(Node &node, Tensor result) {
  if (Tensor bias = node.input(2); result && bias) {
    if (bias.shape() != result.shape().take_back(1))
      return node.error("the bias is {} for {} channels", bias, result.dim(-1));
    result = result + bias;
  }
  return channelsSecond(result);
}

/// One input channel per group: result[.., g * m + j] = sum over e of x_e[.., g] * w[g * m + j, e].
static Tensor depthwise(const Read &windows, Tensor x, Tensor weight) {
  int64_t results = weight.dim(0), rank = x.rank(), multiplier = results / x.dim(-1);
  Tensor scales = weight.reshape({results, windows.elements()}).transpose({1, 0});
  Sizes shape = joinedSizes({{x.dim(0)}, windows.results(), {x.dim(-1)}});
  Tensor sum;
  for (auto [e, seen] : llvm::enumerate(windows.slices(x, 0))) {
    Tensor scale = scales.part(0, e, e + 1).reshape({results});
    if (multiplier > 1)
      seen = seen.unsqueeze(rank)
                 .broadcast(withDim(shape, rank, multiplier))
                 .reshape(withSize(shape, rank - 1, results));
    Tensor term = seen * scale;
    sum = e ? sum + term : term;
  }
  return sum;
}

/// Returns the matmul of [rows, elements * C / groups] with the weights, group by group.
static Tensor groupedMatmul(const Read &windows, Tensor x, Tensor weight, int64_t groups) {
  int64_t elements = windows.elements(), mine = weight.dim(1), results = weight.dim(0);
  Tensor seen = windows.tile() ? windows.split(x) : joined(windows.slices(x, 0), x.rank() - 1);
  int64_t rows;
  if (__builtin_mul_overflow(x.dim(0), windows.count(&Axis::result), &rows))
    return {};
  // [M, C / groups, elements] -> [M, elements, C / groups]: channels are last here, too.
  Tensor turned = weight.reshape({results, mine, elements}).transpose({0, 2, 1});
  Sizes shape = joinedSizes({{x.dim(0)}, windows.results(), {results}});
  if (groups == 1)
    return matmul(seen.reshape({rows, elements * mine}), turned.reshape({results, elements * mine}),
                  false, true)
        .reshape(shape);
  Tensor left = seen.reshape({rows, elements, groups, mine})
                    .transpose({2, 0, 1, 3})
                    .reshape({groups, rows, elements * mine});
  Tensor right = turned.reshape({groups, results / groups, elements * mine});
  return matmul(left, right, false, true).transpose({1, 0, 2}).reshape(shape);
}

static Tensor importConv(Node &node, Tensor x, Tensor weight) {
  if (failed(checkConvolution(node, 4, "convolutions of one and two", /*isTransposed=*/false)))
    return {};
  int64_t groups = node.intAttr("group", 1);
  bool isDepthwise = groups == x.dim(1) && groups > 1;
  Read windows(node);
  if (failed(windows.readAll(weight.shape().drop_front(2), isDepthwise,
                             "a kernel of {} elements whose windows overlap, or are padded, is")))
    return {};
  x = channelsLast(x);
  if (!x)
    return {};
  return withBias(node, isDepthwise ? depthwise(windows, x, weight)
                                    : groupedMatmul(windows, x, weight, groups));
}

namespace {

/// A transposed convolution.
struct Transposed : Windows {
  int64_t batch, groups, outputs; // outputs: per group

  bool tiles() const {
    return llvm::all_of(*this, [](const Axis &axis) {
      return axis.stride == axis.kernel && axis.dilation == 1 && axis.extra == 0;
    });
  }

  /// Finds the sizes of the canvas and of the result (ONNX, ConvTranspose).
  LogicalResult readCanvas() {
    std::string mode = node.choiceAttr("auto_pad", kAutoPads);
    bool isSame = mode == "SAME_UPPER" || mode == "SAME_LOWER";
    std::optional<Sizes> wanted = node.intsAttr("output_shape");
    if (wanted && wanted->size() != size())
      return node.error("output_shape has {} values for {} spatial dimensions", wanted->size(),
                        size());
    if (failed(readPads()))
      return failure();
    for (auto [i, axis] : llvm::enumerate(*this)) {
      int64_t spread, extent;
      if (llvm::MulOverflow(axis.size - 1, axis.stride, spread) ||
          llvm::MulOverflow(axis.kernel - 1, axis.dilation, extent) || spread > INT32_MAX ||
          extent > INT32_MAX)
        return node.error("the result is too large");
      axis.canvas = spread + extent + 1 + axis.extra;
      if (wanted || isSame) {
        int64_t size = wanted ? (*wanted)[i] : axis.size * axis.stride;
        if (!isSize(size))
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
  Tensor matmuls(Tensor x, Tensor weight) const {
    int64_t mine = weight.dim(0) / groups, elements = this->elements(),
            rows = batch * count(&Axis::size);
    Sizes shape = joinedSizes({{batch}, list(&Axis::size), list(&Axis::kernel), {groups, outputs}});
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
  Tensor tiled(Tensor matmuls) const {
    Sizes perm{0}, shape{batch};
    for (auto [i, axis] : llvm::enumerate(*this)) {
      perm.append({int64_t(1 + i), int64_t(1 + size() + i)});
      shape.push_back(axis.size * axis.kernel);
    }
    perm.append({int64_t(1 + 2 * size()), int64_t(2 + 2 * size())});
    shape.push_back(groups * outputs);
    return matmuls.transpose(perm).reshape(shape);
  }
  /// Spreads the matmuls of each kernel element over the canvas, and adds them up.
  Tensor summed(Tensor matmuls) const {
    if (!matmuls)
      return {};
    Sizes own = joinedSizes({{batch}, list(&Axis::size), {groups * outputs}}), none(own.size(), 0);
    Tensor sum;
    for (auto [e, at] : llvm::enumerate(elementPlaces())) {
      Sizes starts(matmuls.rank(), 0), limits(matmuls.shape()), strides(matmuls.rank(), 1),
          low(none), high(none), interior(none);
      for (auto [i, axis] : llvm::enumerate(*this)) {
        starts[1 + size() + i] = at[i];
        limits[1 + size() + i] = at[i] + 1;
        low[1 + i] = at[i] * axis.dilation;
        interior[1 + i] = axis.stride - 1;
        high[1 + i] = axis.canvas - low[1 + i] - ((axis.size - 1) * axis.stride + 1);
      }
      Tensor part = matmuls.slice(starts, limits, strides).reshape(own).padded(low, high, interior);
      sum = e ? sum + part : part;
    }
    return sum;
  }
  /// Places the matmuls in the result.
  Tensor placed(Tensor matmuls) const {
    Sizes starts{0}, limits{batch}, strides(size() + 2, 1);
    for (const Axis &axis : *this) {
      starts.push_back(axis.before);
      limits.push_back(axis.before + axis.result);
    }
    starts.push_back(0), limits.push_back(groups * outputs);
    return (tiles() ? tiled(matmuls) : summed(matmuls)).slice(starts, limits, strides);
  }
};

} // namespace

static Tensor importConvTranspose(Node &node, Tensor x, Tensor weight) {
  if (failed(checkConvolution(node, 5, "transposed convolutions of one to three",
                              /*isTransposed=*/true)))
    return {};
  Transposed conv{Windows(node), x.dim(0), node.intAttr("group", 1), weight.dim(1)};
  if (failed(conv.read(x.shape().drop_front(2), weight.shape().drop_front(2))) ||
      failed(conv.readList("output_padding", &Axis::extra, 0)) || failed(conv.readCanvas()) ||
      (!conv.tiles() &&
       failed(conv.limit("a kernel of {} elements that overlap in the result is"))))
    return {};
  return withBias(node, conv.placed(conv.matmuls(channelsLast(x), weight)));
}

/// Adds up blocks [N, C * kernel.., places..] at their places in an image [N, C, sizes..].
static Tensor importCol2Im(Node &node, Tensor x) {
  const Sizes &sizes = node.ints(1), &kernel = node.ints(2);
  if (x.rank() != 3 || sizes.empty() || sizes.size() > 3 || sizes.size() != kernel.size())
    return node.error("blocks of one to three dimensions are supported, as [N, C * elements, "
                      "places]; the operand is {}, and image_shape and block_shape have {} and {} "
                      "values",
                      x, sizes.size(), kernel.size());
  Transposed fold{Windows(node), x.dim(0), 1, 0};
  if (failed(
          fold.read(sizes, kernel, "image_shape and block_shape must be positive, in 32 bits")) ||
      failed(fold.readPads()))
    return {};
  for (Axis &axis : fold) {
    axis.result = axis.size;
    axis.canvas = axis.result + axis.before + axis.after;
    if (axis.extent() > axis.canvas)
      return node.error("a block spans {} elements of a dimension that has {} with its padding",
                        axis.extent(), axis.canvas);
    axis.size = (axis.canvas - axis.extent()) / axis.stride + 1;
    axis.extra = axis.canvas - ((axis.size - 1) * axis.stride + axis.extent());
  }
  // The image has at least as many elements as there are places, and as a block has.
  bool isTooLarge = false;
  int64_t canvas = std::max<int64_t>(1, x.dim(0));
  for (const Axis &axis : fold)
    isTooLarge |= llvm::MulOverflow(canvas, axis.canvas, canvas);
  if (isTooLarge || llvm::MulOverflow(canvas, x.dim(1), canvas) || canvas > INT64_MAX / 64)
    return node.error("the image is too large");
  int64_t elements = fold.elements(), places = fold.count(&Axis::size);
  if (x.dim(1) % elements != 0 || x.dim(2) != places)
    return node.error("the operand is {} for {} blocks of {} elements", x, places, elements);
  if (!fold.tiles() && failed(fold.limit("blocks of {} elements that overlap are")))
    return {};
  fold.outputs = x.dim(1) / elements;
  // [N, C, kernel.., sizes..] -> [N, sizes.., kernel.., 1, C]
  int64_t count = fold.size();
  Sizes own = fold.list(&Axis::size);
  Tensor terms = x.reshape(joinedSizes({{fold.batch, fold.outputs}, kernel, own}));
  terms = terms.transpose(
      joinedSizes({{0}, dimRange(2 + count, 2 + 2 * count), dimRange(2, 2 + count), {1}}));
  terms = terms.reshape(joinedSizes({{fold.batch}, own, kernel, {1, fold.outputs}}));
  return channelsSecond(fold.placed(terms));
}

//===----------------------------------------------------------------------===//
// Pools
//===----------------------------------------------------------------------===//

/// Reads the windows of a pool over [N, C, spatial..].
static LogicalResult readPool(Read &windows) {
  Tensor x = windows.node.input(0);
  auto kernel = windows.node.intsAttr("kernel_shape");
  if (x.rank() < 3 || !kernel || int64_t(kernel->size()) != x.rank() - 2)
    return windows.node.error("needs a kernel_shape for the spatial dimensions of {}", x);
  return windows.readAll(*kernel, /*needsSlices=*/false,
                         "a window of {} elements that overlaps others, or is padded, is");
}

static Tensor importAveragePool(Node &node, Tensor x) {
  Read windows(node);
  if (failed(readPool(windows)))
    return {};
  Tensor last = channelsLast(x);
  if (!last)
    return {};
  Tensor sum = windows.pool<nn::AddOp>(last, 0, nn::ReduceKind::Sum);
  Tensor count = windows.counts(x.element(), node.flagAttr("count_include_pad", false));
  return channelsSecond(sum / count);
}

/// Returns the largest floats of the windows, [N, results.., C]. Of equal ones the first gets the
/// gradient, as in PyTorch. Null after an error.
static Tensor largestOf(const Read &windows, Tensor x) {
  if (int64_t dim = x.rank() - 1; windows.tile())
    return firstExtreme(nn::ReduceKind::Max, windows.split(x), dim).sum({dim}, false);
  Tensor result;
  for (auto [e, seen] : llvm::enumerate(windows.slices(x, -HUGE_VAL))) {
    if (e) {
      Tensor isMore = (seen > result) | differ(seen, seen); // NaN
      seen = select(isMore, seen, result);
    }
    result = seen;
  }
  return result;
}

static Tensor importMaxPool(Node &node, Tensor x) {
  Read windows(node);
  if (failed(readPool(windows)))
    return {};
  if (node.wants(1))
    return node.error("its result of indices is not supported");
  x = channelsLast(x);
  if (!x)
    return {};
  if (x.hasFloats())
    return channelsSecond(largestOf(windows, x));
  // A power of two is exact in doubles.
  double least = -std::ldexp(1, x.type().getElementTypeBitWidth() - 1);
  return channelsSecond(windows.pool<nn::MaxOp>(x, least, nn::ReduceKind::Max));
}

void onnx::registerConvOps(HandlerRegistry &r) {
  r.add("", "Col2Im", 18, importCol2Im, needs(3) | floats(1) | knownInts(1, 2));
  r.add("", "ConvTranspose", 1, importConvTranspose, needs(2));
  r.add("", "Conv", 1, importConv, needs(2));
  r.add("", "AveragePool", 7, importAveragePool, floats(1));
  r.add("", "MaxPool", 8, importMaxPool, numbers(1));
}
