//===- Ops.h - The families of op handlers --------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_OPS_OPS_H
#define SHALE_FRONTEND_ONNX_OPS_OPS_H

#include "lib/Frontend/ONNX/Building.h"

namespace shale::onnx {

/// Adds the handlers of a file.
using Family = void(HandlerRegistry &);
Family registerAttentionOps, registerControlOps, registerConvOps, registerDataOps,
    registerElementwiseOps, registerFourierOps, registerIndexOps, registerLossOps,
    registerMatmulOps, registerNormOps, registerRandomOps, registerRecurrentOps, registerReduceOps,
    registerResizeOps;

/// An operator of PyTorch that is a function of the file (Building.cpp).
struct WholeFunction {
  llvm::StringLiteral name, digest;
  int operands; // that must be there
  bool (*read)(Node &);

  /// Sets the results of the call. Returns false, with no error, if no op fits the operands.
  bool import(Node &node) const;
};
/// Returns null if there is none of that name (Aten.cpp).
const WholeFunction *findWholeFunction(llvm::StringRef name);

// The functions that return a tensor return null after an error, and most of them for null.

/// Returns x with elements dropped: a new random op.
Tensor dropped(Node &node, Tensor x, double ratio);

/// The square root of a sum of squares or a variance, with the gradient 0 at 0, as of PyTorch's
/// norms and deviations.
Tensor rootOrZero(Tensor sum);
/// log(1 + exp(x)), without overflow.
Tensor softplus(Tensor x);
/// The remainder of x / y with the sign of y, of floats or integers.
Tensor floorRemainder(Tensor x, Tensor y);
/// Whether a remainder is not 0 and has another sign than the divisor.
Tensor differsInSign(Tensor remainder, Tensor divisor);
/// The angle of the point (x, y), in (-pi, pi].
Tensor arcTangent2(Tensor y, Tensor x);

/// Returns the value of an operation of PyTorch of which the node is the last one, if the operation
/// is imported as a whole (Recorded.cpp). Null if it is not.
Tensor wholeOperation(Node &node);

/// The largest or smallest element along `axis`, which has elements; the dimension stays, with one
/// element. The gradient goes to the first of equal elements.
Tensor firstExtreme(nn::ReduceKind kind, Tensor x, int64_t axis);

/// y[i, j, k] = from[i, ids[i, j, k], k] for axis 1: `ids` are in range, and have at most as many
/// lines as `from`.
Tensor gatherElements(Tensor from, Tensor ids, int64_t axis);

/// Joins values along a dimension of the first one.
Tensor concatenated(Node &node, llvm::ArrayRef<Tensor> values, int64_t axis);

/// Returns `bound`, broadcast to x, where x compares `beyond` with it (LE for a lower bound), else
/// x. At the bound x gets no gradient, as in PyTorch's relu, clamp and hardtanh.
Tensor bounded(Tensor x, Operand bound, nn::Predicate beyond);

/// Returns factor * x; x itself if the factor is 1.
Tensor scaled(Tensor x, double factor);

/// Gathers the slices of `input` along `axis` at `indices`, which are in [0, size). The result has
/// dimensions [..axis), the indices', (axis..]. Gradients flow to all rows except `padding`.
Tensor gatherAlong(Tensor input, Tensor indices, int64_t axis,
                   std::optional<int64_t> padding = std::nullopt);
/// The same for any integer indices: negative ones count from the end, constant ones are checked.
Tensor lookUp(Tensor input, Tensor indices, int64_t axis,
              std::optional<int64_t> padding = std::nullopt);

/// Whether a value has integers that may be indices.
bool areIndices(Tensor value);
/// Reads the attribute `axis` of an operator that works on the lines of operand 0, and returns the
/// shape in which the lines run along that axis: before operator set 13 the default axis is 1 and
/// all later dimensions are one line. Fails after an error.
mlir::FailureOr<Sizes> linesOf(Node &node, int64_t &axis);

/// Returns the logarithm of the softmax over the last dimension.
Tensor logSoftmax(Tensor x);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_OPS_OPS_H
