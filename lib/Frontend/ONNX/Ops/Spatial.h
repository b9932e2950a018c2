//===- Spatial.h - The spatial dimensions of convolutions and pools -------===//
#ifndef SHALE_FRONTEND_ONNX_OPS_SPATIAL_H
#define SHALE_FRONTEND_ONNX_OPS_SPATIAL_H

#include "lib/Frontend/ONNX/Ops/Ops.h"

namespace shale::onnx {

/// One spatial dimension, and the kernel along it.
struct SpatialAxis {
  int64_t size, kernel, stride = 1, dilation = 1;
  int64_t before = 0, after = 0; // padding, or what is cut off
  int64_t result = 0;            // places of the result
  int64_t beyond = 0;            // elements that the last window reads after all padding
  int64_t extra = 0, canvas = 0; // of a transposed convolution: see ConvTranspose.cpp

  /// The span of the dilated kernel.
  int64_t extent() const { return (kernel - 1) * dilation + 1; }
};

/// The spatial dimensions, in order.
struct SpatialAxes : llvm::SmallVector<SpatialAxis> {
  /// Returns a number of each dimension.
  Sizes list(int64_t SpatialAxis::*field) const;
  /// Returns the product of a number of each dimension.
  int64_t count(int64_t SpatialAxis::*field) const { return llvm::product_of(list(field)); }
  /// Calls `visit` with the place of each kernel element; the last dimension varies fastest.
  void forEachElement(llvm::function_ref<void(llvm::ArrayRef<int64_t>)> visit) const;

  /// Adds dimensions and reads their strides and dilations. Fails, with an error, if sizes are not
  /// positive, or do not fit 32 bits; `what` names them.
  mlir::LogicalResult read(Node &node, llvm::ArrayRef<int64_t> sizes,
                           llvm::ArrayRef<int64_t> kernel,
                           const char *what = "a spatial dimension of input or kernel is empty or "
                                              "too large");
  /// Reads an attribute that has a value of `least` or more, in 32 bits, for each dimension.
  mlir::LogicalResult readList(Node &node, llvm::StringRef name, int64_t SpatialAxis::*field,
                               int64_t least);
  /// Reads the attribute `pads`, of a value of each dimension's begin and then of each end.
  mlir::LogicalResult readPads(Node &node);
};

/// Reads the attribute auto_pad.
std::string readAutoPad(Node &node);

/// Checks operands 0 and 1 of a convolution: [N, C, sizes..], of a rank of at most `most`, and the
/// weights, [M, C / groups, kernel..], or [C, M / groups, kernel..] if it is transposed. `what`
/// names the convolutions that are supported.
mlir::LogicalResult checkConvolution(Node &node, int64_t most, const char *what, bool isTransposed);

/// Adds operand 2, if it is there, to channels [N, sizes.., C], and sets the result, [N, C,
/// sizes..].
mlir::LogicalResult setWithBias(Node &node, Tensor result, int64_t channels);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_OPS_SPATIAL_H
