//===- Resize.cpp - Interpolation ------------------------------------------===//
//
// Interpolation is separable: each resized axis is multiplied by a matrix
// [size, new size] of weights, which depend on sizes and attributes only. The
// nearest element is looked up, so that its value is exact.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Maximum number of weights of one axis.
constexpr int64_t kMaxWeights = int64_t(1) << 24;

/// The attributes of a Resize.
struct Method {
  std::string mode, coordinates, rounding;
  double cubic;
  bool excludesOutside, antialias;
};

/// One axis: its old and new size, and the scale between them.
struct Axis {
  int64_t dim, size, result;
  double scale;
};

} // namespace

/// Returns the place in the operand of element `x` of the result. `Number` is float where the
/// rounding of ties must be that of ONNX Runtime.
template <typename Number>
static Number placeOf(const Method &method, const Axis &axis, int64_t x) {
  Number scale = Number(axis.scale), size = Number(axis.size), width = scale * size;
  Number half = (Number(x) + Number(0.5)) / scale - Number(0.5);
  if (method.coordinates == "align_corners")
    return width > 1 ? Number(x) * (size - 1) / (width - 1) : 0;
  if (method.coordinates == "asymmetric")
    return Number(x) / scale;
  if (method.coordinates == "pytorch_half_pixel")
    return axis.result > 1 ? half : 0;
  if (method.coordinates == "half_pixel_symmetric")
    return size / 2 * (1 - Number(axis.result) / width) + half;
  return half;
}

/// Returns the index of the nearest element.
static int64_t nearestTo(const Method &method, const Axis &axis, int64_t x) {
  float place = placeOf<float>(method, axis, x);
  float rounded = method.rounding == "floor"               ? std::floor(place)
                  : method.rounding == "ceil"              ? std::ceil(place)
                  : method.rounding == "round_prefer_ceil" ? std::floor(place + 0.5f)
                                                           : std::ceil(place - 0.5f);
  return int64_t(std::clamp(rounded, 0.0f, float(axis.size - 1)));
}

/// Returns the weight of an element at a distance.
static double kernel(const Method &method, double distance) {
  double d = std::abs(distance), a = method.cubic;
  if (method.mode == "linear")
    return std::max(0.0, 1 - d);
  if (d <= 1)
    return ((a + 2) * d - (a + 3)) * d * d + 1;
  return d < 2 ? ((a * d - 5 * a) * d + 8 * a) * d - 4 * a : 0;
}

/// Returns the weights [size, result] of an axis. Elements beyond the ends are those at the ends,
/// or are left out.
static std::vector<double> weightsOf(const Method &method, const Axis &axis) {
  std::vector<double> weights(axis.size * axis.result, 0);
  double shrink = method.antialias ? std::min(axis.scale, 1.0) : 1;
  double radius = (method.mode == "linear" ? 1 : 2) / shrink;
  for (int64_t x = 0; x < axis.result; ++x) {
    double place = placeOf<double>(method, axis, x), total = 0;
    // Every place further outside than the radius has the weights of the nearest end.
    place = std::clamp(place, -radius, double(axis.size - 1) + radius);
    auto first = int64_t(std::floor(place - radius)), last = int64_t(std::ceil(place + radius));
    for (int64_t at = first; at <= last; ++at) {
      double weight = kernel(method, (double(at) - place) * shrink);
      if (method.excludesOutside && (at < 0 || at >= axis.size))
        continue;
      total += weight;
      weights[std::clamp<int64_t>(at, 0, axis.size - 1) * axis.result + x] += weight;
    }
    for (int64_t at = 0; at < axis.size && total != 0; ++at)
      weights[at * axis.result + x] /= total;
  }
  return weights;
}

/// Reads which axes are resized, and how.
static LogicalResult readResized(Node &node, Tensor x, SmallVectorImpl<Axis> &list) {
  // In the order of scales and sizes.
  Sizes sizes, dims = node.intsAttr("axes").value_or(allDims(x.rank())), sorted = dims;
  if (failed(node.normalizeAll(sorted, x.rank())))
    return failure();
  SmallVector<double> scales;
  if (Tensor given = node.input(2)) {
    DenseElementsAttr attr = node.building.constantOf(given);
    if (!attr || !given.hasFloats() || given.count() > 64)
      return node.error("the scales must be floats that are known at compile time");
    for (const APFloat &value : attr.getValues<APFloat>())
      scales.push_back(value.convertToDouble());
  }
  if (node.input(3) && failed(node.constantInts(3, sizes)))
    return failure();
  if (scales.empty() == sizes.empty() || std::max(scales.size(), sizes.size()) != dims.size())
    return node.error("needs {} scales or as many sizes, not {} scales and {} sizes", dims.size(),
                      scales.size(), sizes.size());
  for (auto [i, dim] : llvm::enumerate(dims)) {
    int64_t size = x.dim(dim);
    double scale =
        scales.empty() ? double(sizes[i]) / double(std::max<int64_t>(size, 1)) : scales[i];
    double wanted = scales.empty() ? double(sizes[i]) : std::floor(double(size) * scale);
    if (size < 1 || !(scale > 0) || !(wanted >= 1 && wanted <= double(INT32_MAX)))
      return node.error("cannot resize {} elements to {}", size, plain(std::to_string(wanted)));
    auto result = int64_t(wanted);
    if (size > kMaxWeights / result)
      return node.error("resizing {} elements to {} needs too many weights", size, result);
    if (result != size || scale != 1)
      list.push_back({dim < 0 ? dim + x.rank() : dim, size, result, scale});
  }
  return success();
}

/// Multiplies one axis by its weights.
static Tensor interpolate(Node &node, Tensor x, const Method &method, const Axis &axis) {
  Type element = x.element();
  Sizes perm = dimAndLast(x.rank(), axis.dim);
  std::vector<double> weights = weightsOf(method, axis);
  auto matrix = RankedTensorType::get({axis.size, axis.result}, element);
  auto values = element.isF64()
                    ? DenseElementsAttr::get(matrix, ArrayRef(weights))
                    : DenseElementsAttr::get(
                          matrix, ArrayRef(std::vector<float>(weights.begin(), weights.end())));
  Tensor table = node.constant(values), turned = x.transpose(perm);
  Tensor rows = turned.reshape({x.count() / axis.size, axis.size});
  return matmul(rows, table)
      .reshape(withSize(turned.shape(), x.rank() - 1, axis.result))
      .transpose(perm);
}

static Tensor importResize(Node &node, Tensor x) {
  Method method;
  method.mode = node.choiceAttr("mode", {"nearest", "linear", "cubic"});
  method.coordinates = node.choiceAttr(
      "coordinate_transformation_mode",
      {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"});
  method.rounding =
      node.choiceAttr("nearest_mode", {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  method.cubic = node.floatAttr("cubic_coeff_a", -0.75);
  method.excludesOutside = node.flagAttr("exclude_outside", false);
  method.antialias = node.flagAttr("antialias", false);
  std::string policy = node.stringAttr("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch")
    return node.error("keep_aspect_ratio_policy {} is not supported: give the sizes of the result",
                      policy);
  if (!std::isfinite(method.cubic))
    return node.error("cubic_coeff_a is not finite");
  SmallVector<Axis> axes;
  if (failed(readResized(node, x, axes)) || node.hasFailed())
    return {};
  Type element = x.element();
  bool looksUp = method.mode == "nearest";
  if (!looksUp && !x.hasFloats())
    return node.error("mode {} needs floats, but the operand is {}: cast it first", method.mode, x);
  if (looksUp && method.antialias)
    return node.error("antialias needs mode linear or cubic");
  bool narrow = !looksUp && element.getIntOrFloatBitWidth() < 32;
  x = narrow ? x.cast(node.builder.getF32Type()) : x;
  for (const Axis &axis : axes) {
    auto nearest = [&](int64_t at) { return nearestTo(method, axis, at); };
    if (looksUp && x)
      x = gatherAlong(
          x, node.constant(llvm::map_to_vector(llvm::seq<int64_t>(0, axis.result), nearest)),
          axis.dim);
    else if (x)
      x = interpolate(node, x, method, axis);
  }
  return narrow ? x.cast(element) : x;
}

void onnx::registerResizeOps(HandlerRegistry &r) {
  r.add("", "Resize", 11, importResize, numbers(1));
}
