//===- Ops.h - The families of op handlers --------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_OPS_OPS_H
#define SHALE_FRONTEND_ONNX_OPS_OPS_H

#include "lib/Frontend/ONNX/Building.h"

namespace shale::onnx {

/// Adds the handlers of a file.
using Family = void(HandlerRegistry &);
Family registerAttentionOps, registerControlOps, registerConvOps, registerConvTransposeOps,
    registerDataOps, registerElementwiseOps, registerFourierOps, registerIndexOps, registerLossOps,
    registerMatmulOps, registerNormOps, registerRandomOps, registerRecurrentOps, registerReduceOps,
    registerResizeOps;

/// An operator of PyTorch that is a function of the file (WholeFunctions.cpp).
struct WholeFunction {
  llvm::StringLiteral name, digest;
  int operands; // that must be there
  bool (*read)(Node &);

  /// Sets the results of the call. Returns false, with no error, if no op fits the operands.
  bool import(Node &node) const;
};
/// Returns null if there is none of that name (Aten.cpp).
const WholeFunction *findWholeFunction(llvm::StringRef name);

/// Returns x with elements dropped: a new random op. Returns null after an error.
mlir::Value dropped(Node &node, mlir::Value x, double ratio);

/// Checks that operand 0 is [N, C, ..], of a rank of at least `rank`.
mlir::LogicalResult checkChannels(Node &node, int64_t rank);

/// [N, C, spatial..] to [N, spatial.., C] and back. Null after an error.
mlir::Value channelsLast(Node &node, mlir::Value value);
mlir::Value channelsSecond(Node &node, mlir::Value value);

/// Whether an op is a row of a window, as convolutions have, that reaches to later positions:
/// element t of its result is element t + 1 or later of its operand's, which is padded at the end.
bool isLaterRow(mlir::Operation *op);

/// The square root of a sum of squares or a variance, with the gradient 0 at 0, as of PyTorch's
/// norms and deviations. Null after an error.
mlir::Value rootOrZero(Node &node, mlir::Value x);

/// log(1 + exp(x)), without overflow. Null after an error.
mlir::Value softplus(Node &node, mlir::Value x);

/// The remainder of x / y with the sign of y, of floats or integers. Null after an error.
mlir::Value floorRemainder(Node &node, mlir::Value x, mlir::Value y);
/// Whether a remainder is not 0 and has another sign than the divisor. Null after an error.
mlir::Value differsInSign(Node &node, mlir::Value remainder, mlir::Value divisor);

/// The angle of the point (x, y), in (-pi, pi]. Null after an error.
mlir::Value arcTangent2(Node &node, mlir::Value y, mlir::Value x);

/// Returns the value of an operation of PyTorch of which the node is the last one, if the operation
/// is imported as a whole (Recorded.cpp). Null if it is not, or after an error.
mlir::Value wholeOperation(Node &node);

/// The first or last index of the largest or smallest element along `axis`, which has elements;
/// with `keep` the dimension stays, with one element. Null after an error.
mlir::Value extremeIndex(Node &node, nn::ReduceKind kind, mlir::Value x, int64_t axis, bool last,
                         bool keep);

/// The largest or smallest element along `axis`, which has elements; the dimension stays, with one
/// element. The gradient goes to the first of equal elements. Null after an error.
mlir::Value firstExtreme(Node &node, nn::ReduceKind kind, mlir::Value x, int64_t axis);

/// A grid of places: index k of a tuple has `sizes` values from `first` on, `steps` apart.
struct TupleGrid {
  /// The dimension of the tuples' shape along which an index runs; -1 if it has one value.
  Sizes along;
  Sizes first, steps, sizes;
};
/// Returns the grid that constant index tuples [.., K] are, if at most one dimension of their shape
/// runs along each index; nothing if they are none, or if there are no tuples.
std::optional<TupleGrid> gridOf(mlir::DenseElementsAttr tuples);

/// The lines of a tensor along an axis, as gather and scatter of elements take them.
struct Lines {
  /// The slice of the tensor with as many lines as there are indices.
  Sizes starts, limits, strides;
  /// The permutation that moves the axis to the end, and the one that moves it back.
  Sizes perm, back;

  /// `indices`: the shape of the indices, of the tensor's rank.
  Lines(mlir::RankedTensorType tensor, llvm::ArrayRef<int64_t> indices, int64_t axis);
  /// Indices as tuples of one number. Null after an error.
  mlir::Value tuples(Node &node, mlir::Value indices) const;
};

/// y[i, j, k] = from[i, ids[i, j, k], k] for axis 1: `ids` are in range, and have at most as many
/// lines as `from`. Null after an error.
mlir::Value gatherElements(Node &node, mlir::Value from, mlir::Value ids, int64_t axis);

/// Joins values along a dimension of the first one. Returns null after an error.
mlir::Value concatenated(Node &node, llvm::ArrayRef<mlir::Value> values, int64_t axis);

/// Returns `bound`, broadcast to x, where x compares `beyond` with it (LE for a lower bound), else
/// x. At the bound x gets no gradient, as in PyTorch's relu, clamp and hardtanh. Returns null after
/// an error.
mlir::Value bounded(Node &node, mlir::Value x, Operand bound, nn::Predicate beyond);

/// Returns factor * x; x itself if the factor is 1.
mlir::Value scaled(Node &node, mlir::Value x, double factor);

/// Gathers the slices of `input` along `axis` at `indices`, which are in [0, size). The result has
/// dimensions [..axis), the indices', (axis..]. Gradients flow to all rows except `padding`.
/// Returns null after an error.
mlir::Value gatherAlong(Node &node, mlir::Value input, mlir::Value indices, int64_t axis,
                        std::optional<int64_t> padding = std::nullopt);

/// The same for any integer indices: negative ones count from the end, constant ones are checked.
mlir::Value lookUp(Node &node, mlir::Value input, mlir::Value indices, int64_t axis,
                   std::optional<int64_t> padding = std::nullopt);

/// Whether a value has integers that may be indices.
bool areIndices(mlir::Value value);
/// Whether `indices` have the tensor's rank, and at most as many lines along `axis`.
bool fitLines(mlir::RankedTensorType indices, mlir::RankedTensorType tensor, int64_t axis);

/// Converts negative indices, which count from the end of `sizes` (one, or one for each element of
/// the last dimension), and checks constant ones. `table` is named by the error. With `isRead` an
/// op reads the table by the indices: then programs check inputs and refuse negative ones. Returns
/// null after an error.
mlir::Value wrapped(Node &node, mlir::Value indices, llvm::ArrayRef<int64_t> sizes,
                    mlir::Value table = {}, bool isRead = true);

/// Reads the type in which a norm computes, attribute `stash_type`. Returns null after an error.
mlir::Type stashType(Node &node);

/// Whether a norm of operands of type `element` that computes in `stash` must convert them. Norms
/// of 16-bit floats compute in f32 in any case.
bool normConverts(mlir::Type element, mlir::Type stash);

/// Returns the type of a norm's statistics of rows [rows.., width].
mlir::RankedTensorType statisticsType(mlir::RankedTensorType rows);

/// Reads the attribute `epsilon`. Fails, with an error, if it is negative or not finite.
mlir::LogicalResult readEpsilon(Node &node, float missing, double &epsilon);

/// Builds a layer normalization of each row of [rows.., width]. Result 0 is the normalized rows.
mlir::Operation *layerNorm(Node &node, mlir::Value x, mlir::Value scale, mlir::Value bias,
                           double epsilon);

/// Reads the attribute `axis` of an operator that works on the lines of operand 0, and returns the
/// shape in which the lines run along that axis: before operator set 13 the default axis is 1 and
/// all later dimensions are one line. Fails after an error.
mlir::FailureOr<llvm::SmallVector<int64_t>> linesOf(Node &node, int64_t &axis);

/// Returns the logarithm of the softmax over the last dimension; null after an error.
mlir::Value logSoftmax(Node &node, mlir::Value x);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_OPS_OPS_H
