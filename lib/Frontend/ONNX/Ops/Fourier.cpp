//===- Fourier.cpp - Discrete Fourier transforms --------------------------===//
//
// A transform of N numbers is a product with the cosines and sines of 2 pi n k / N. A step looks
// them up, by n k modulo N, among N constants, which are rounded once: an angle in f32 is not
// exact, and the sine of half a turn would not be 0.
//
//===----------------------------------------------------------------------===//
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "dialects/nn/Ops/Embedding.h"
#include "lib/Frontend/ONNX/Ops/Ops.h"

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {

/// Maximum length of a transform: a table has as many elements as its square.
constexpr int64_t kMaxLength = 8192;

struct Transform {
  Node &node;
  int64_t length, inputs, results; // of the period, of the operand and of the result

  Tensor places();
  Tensor table(Tensor places, FloatType element, double (*function)(double));
};

} // namespace

/// Returns n k modulo N, [inputs, results].
Tensor Transform::places() {
  auto type = RankedTensorType::get({inputs, results}, node.builder.getI64Type());
  Tensor n = node.create<nn::IotaOp>(type, int64_t(0)),
         k = node.create<nn::IotaOp>(type, int64_t(1));
  return binary<nn::RemOp>(n * k, double(length));
}

/// Returns function(2 pi p / N) for each place p. Null if `places` is.
Tensor Transform::table(Tensor places, FloatType element, double (*function)(double)) {
  constexpr double kPi = 3.14159265358979323846;
  SmallVector<APFloat> values;
  for (int64_t place = 0; place < length; ++place) {
    bool lost;
    values.emplace_back(function(2 * kPi * double(place) / double(length)));
    values.back().convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  }
  auto type = RankedTensorType::get({length, 1}, element);
  auto wide = RankedTensorType::get({inputs, results, 1}, element);
  Tensor constants = node.create<nn::ConstantOp>(type, DenseElementsAttr::get(type, values));
  Tensor found = places && constants
                     ? node.create<nn::EmbeddingOp>(wide, constants, places, IntegerAttr())
                     : Tensor();
  return found.reshape({inputs, results});
}

/// Cuts or pads dimension `axis` at its end to `size` elements.
static Tensor resized(Tensor x, int64_t axis, int64_t size) {
  Sizes shape(x.shape());
  if (size < shape[axis])
    return x.part(axis, 0, size);
  shape[axis] = size;
  return x.padded(shape);
}

/// Multiplies [rows, N / 2 + 1] by how often each coefficient stands in the whole: twice but for 0
/// and N / 2.
static Tensor counted(Tensor x, int64_t length) {
  if (!x)
    return {};
  Sizes times(x.dim(1), 2);
  times.front() = 1;
  if (length % 2 == 0)
    times.back() = 1;
  return x * x.node().constant(times).cast(x.element());
}

namespace {
/// The axis, length and kind of the transform of a DFT node.
struct DftForm {
  int64_t axis = 0, length = 0; ///< `length` numbers, as the inverse of a half has them
  bool isReal = false, inverse = false, half = false;
};
} // namespace

static LogicalResult readForm(Node &node, DftForm &form) {
  auto type = node.input(0).type();
  int64_t rank = type.getRank();
  if (rank < 2 || (type.getShape().back() != 1 && type.getShape().back() != 2))
    return node.error("the operand must be [.., 1] or [.., 2]; it is {}", type);
  FailureOr<int64_t> axis =
      node.version >= 20 ? node.onlyInt(2, "axis", -2) : node.intAttr("axis", 1);
  if (failed(axis) || failed(node.normalize(*axis, rank)))
    return failure();
  form.axis = *axis;
  form.inverse = node.flagAttr("inverse", false), form.half = node.flagAttr("onesided", false);
  if (form.axis == rank - 1)
    return node.error("the last dimension holds real and imaginary parts, and cannot be the axis");
  form.isReal = type.getShape().back() == 1;
  if (form.half && form.isReal == form.inverse)
    return node.error(form.inverse ? "the inverse of a half (onesided) reads complex numbers"
                                   : "onesided is defined for the transform of real numbers only");
  form.length = type.getDimSize(form.axis);
  if (form.half && form.inverse)
    form.length = 2 * (form.length - 1);
  FailureOr<int64_t> length = node.onlyInt(1, "length", form.length);
  if (failed(length))
    return failure();
  form.length = *length;
  if (form.length < 1 || form.length > kMaxLength)
    return node.error("a transform of {} numbers is not supported: 1 to {} are", form.length,
                      kMaxLength);
  return success();
}

/// DFT: of real numbers [.., 1] or complex ones [.., 2] along an axis. The result is complex, but
/// that of the inverse of a half is real.
static Tensor importDft(Node &node) {
  DftForm form;
  if (failed(readForm(node, form)))
    return {};
  bool isReal = form.isReal, inverse = form.inverse, half = form.half;
  int64_t axis = form.axis, length = form.length;
  Tensor x = node.input(0);
  auto type = x.type();
  int64_t rank = type.getRank();
  int64_t some = length / 2 + 1;
  x = resized(x, axis, half && inverse ? some : length);
  if (!x)
    return {};
  // The axis becomes the last dimension of rows.
  Sizes perm = dimToEnd(rank - 1, axis), back(rank - 1), shape;
  int64_t rows = 1;
  for (auto [to, from] : llvm::enumerate(perm)) {
    back[from] = to;
    shape.push_back(x.dim(from));
    rows *= int64_t(to) + 2 < rank ? shape.back() : 1;
  }
  Transform dft{node, length, x.dim(axis), half && !inverse ? some : length};
  auto part = [&](int64_t index) -> Tensor {
    Tensor one = x.part(rank - 1, index, index + 1).reshape(x.shape().drop_back());
    one = one.transpose(perm).reshape({rows, dft.inputs});
    return half && inverse ? counted(one, length) : one;
  };
  Tensor real = part(0), imaginary = isReal ? Tensor() : part(1);
  Tensor places = dft.places();
  auto element = cast<FloatType>(type.getElementType());
  Tensor cosines = dft.table(places, element, std::cos),
         sines = dft.table(places, element, std::sin);
  if (inverse)
    sines = -sines;
  // (a + bi)(cos - i sin), for the inverse (a + bi)(cos + i sin) / N.
  Tensor outReal = matmul(real, cosines), outImaginary = -matmul(real, sines);
  if (imaginary) {
    outReal = outReal + matmul(imaginary, sines);
    outImaginary = outImaginary + matmul(imaginary, cosines);
  }
  shape.back() = dft.results;
  SmallVector<Tensor> results{outReal, outImaginary}, parts;
  if (half && inverse)
    results.pop_back();
  for (Tensor out : results) {
    if (inverse)
      out = out * (1 / double(length));
    parts.push_back(out.reshape(shape).transpose(back).unsqueeze(rank - 1));
  }
  return node.joined(parts, rank - 1);
}

void onnx::registerFourierOps(HandlerRegistry &r) { r.add("", "DFT", 17, importDft, floats(1)); }
