//===- Fourier.cpp - Discrete Fourier transforms --------------------------===//
//
// A transform of N numbers is a matmul with the cosines and sines of 2 pi n k / N. A step looks
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

/// Maximum length of a transform: a table has as many elements as its square.
static constexpr int64_t kMaxLength = 8192;

/// Returns function(2 pi p / length) for each place p. Null if `places` is.
static Tensor tableOf(Tensor places, int64_t length, FloatType element,
                      double (*function)(double)) {
  if (!places)
    return {};
  SmallVector<APFloat> values;
  for (int64_t place = 0; place < length; ++place) {
    bool lost;
    values.emplace_back(function(2 * M_PI * double(place) / double(length)));
    values.back().convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
  }
  auto type = RankedTensorType::get({length, 1}, element);
  Tensor constants =
      places.node().create<nn::ConstantOp>(type, DenseElementsAttr::get(type, values));
  auto wide = RankedTensorType::get({places.dim(0), places.dim(1), 1}, element);
  return places.node()
      .create<nn::EmbeddingOp>(wide, constants, places, IntegerAttr())
      .reshape(places.shape());
}

/// Multiplies [rows, N / 2 + 1] by how often each coefficient stands in the whole: twice but for 0
/// and N / 2.
static Tensor counted(Tensor x, int64_t length) {
  Sizes times(length / 2 + 1, 2);
  times.front() = 1;
  if (length % 2 == 0)
    times.back() = 1;
  return x ? x * x.node().constant(times).cast(x.element()) : x;
}

/// DFT: of real numbers [.., 1] or complex ones [.., 2] along an axis. The result is complex, but
/// that of the inverse of a half is real.
static Tensor importDft(Node &node, Tensor x) {
  int64_t rank = x.rank();
  if (rank < 2 || (x.dim(-1) != 1 && x.dim(-1) != 2))
    return node.error("the operand must be [.., 1] or [.., 2]; it is {}", x);
  int64_t axis = node.version >= 20 ? node.onlyInt(2, "axis", -2) : node.intAttr("axis", 1);
  if (failed(node.normalize(axis, rank)))
    return {};
  bool isInverse = node.flagAttr("inverse", false), half = node.flagAttr("onesided", false);
  if (axis == rank - 1)
    return node.error("the last dimension holds real and imaginary parts, and cannot be the axis");
  bool isReal = x.dim(-1) == 1;
  if (half && isReal == isInverse)
    return node.error(isInverse ? "the inverse of a half (onesided) reads complex numbers"
                                : "onesided is defined for the transform of real numbers only");
  // As the inverse of a half has them.
  int64_t all = half && isInverse ? 2 * (x.dim(axis) - 1) : x.dim(axis);
  int64_t length = node.onlyInt(1, "length", all), some = length / 2 + 1;
  if (length < 1 || length > kMaxLength)
    return node.error("a transform of {} numbers is not supported: 1 to {} are", length,
                      kMaxLength);
  auto element = cast<FloatType>(x.element());
  int64_t read = half && isInverse ? some : length; // the others are cut off, or 0
  x = x.part(axis, 0, std::min(read, x.dim(axis))).padded(withSize(x.shape(), axis, read));
  if (!x)
    return {};
  // The axis becomes the last dimension of rows.
  Sizes perm = dimToEnd(rank - 1, axis), shape;
  for (int64_t dim : perm)
    shape.push_back(x.dim(dim));
  int64_t rows = llvm::product_of(ArrayRef(shape).drop_back()), inputs = shape.back(),
          wanted = half && !isInverse ? some : length;
  auto part = [&](int64_t index) -> Tensor {
    Tensor one = x.part(rank - 1, index, index + 1).reshape(x.shape().drop_back());
    one = one.transpose(perm).reshape({rows, inputs});
    return half && isInverse ? counted(one, length) : one;
  };
  Tensor real = part(0), imaginary = isReal ? Tensor() : part(1);
  auto grid = RankedTensorType::get({inputs, wanted}, node.builder.getI64Type());
  Tensor n = node.create<nn::IotaOp>(grid, int64_t(0)),
         k = node.create<nn::IotaOp>(grid, int64_t(1));
  Tensor places = binary<nn::RemOp>(n * k, double(length));
  Tensor cosines = tableOf(places, length, element, std::cos),
         sines = tableOf(places, length, element, std::sin);
  if (isInverse)
    sines = -sines;
  // (a + bi)(cos - i sin), for the inverse (a + bi)(cos + i sin) / N.
  Tensor outReal = matmul(real, cosines), outImaginary = -matmul(real, sines);
  if (imaginary) {
    outReal = outReal + matmul(imaginary, sines);
    outImaginary = outImaginary + matmul(imaginary, cosines);
  }
  shape.back() = wanted;
  SmallVector<Tensor> results{outReal, outImaginary}, parts;
  if (half && isInverse)
    results.pop_back();
  for (Tensor out : results) {
    if (isInverse)
      out = out * (1 / double(length));
    parts.push_back(out.reshape(shape).transpose(inverse(perm)).unsqueeze(rank - 1));
  }
  return joined(parts, rank - 1);
}

void onnx::registerFourierOps(HandlerRegistry &r) { r.add("", "DFT", 17, importDft, floats(1)); }
