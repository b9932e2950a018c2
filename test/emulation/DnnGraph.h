// Operation graphs of the emulated cuDNN, and how they are computed.
#ifndef SHALE_TEST_EMULATION_DNNGRAPH_H
#define SHALE_TEST_EMULATION_DNNGRAPH_H

#include "DnnDescriptor.h"

#include <functional>

namespace shale::stub {

/// A tensor: sizes and the distances of its elements, outermost first.
struct DnnTensor {
  int64_t number;
  cudnnDataType_t type;
  std::vector<int64_t> sizes, strides;
  bool isVirtual, byValue; ///< has no address; its address is on the host
  int64_t alignment;       ///< of the address, in bytes

  int64_t elements() const;
  int64_t elementBytes() const;
  /// Bytes from the first element to behind the last.
  int64_t extent() const;
};

/// An operation, with its operands as indices of tensors. What it does not use is -1.
struct DnnOperation {
  enum Kind { Matmul, Pointwise, Reduction, Reshape } kind;
  int mode = 0; ///< cudnnPointwiseMode_t or cudnnReduceTensorOp_t
  int64_t axis = -1;
  int x = -1, b = -1, t = -1, y = -1;
};

struct DnnOperations {
  std::vector<DnnTensor> tensors;
  std::vector<DnnOperation> operations; ///< each after those that make its operands

  const DnnTensor &operand(int index) const { return tensors[index]; }
  /// The operation that makes a tensor, or null.
  const DnnOperation *maker(int tensor) const;
  /// The index of a number, or -1.
  int find(int64_t number) const;
};

/// Reads a graph's descriptor. Refuses what the stand-in cannot compute.
cudnnStatus_t readOperations(const Descriptor &graph, DnnOperations &read);

/// How sums are split: `parts` consecutive parts, after a rotation by `start`.
struct DnnOrder {
  int parts = 1;
  uint64_t start = 0;
};

/// Computes all operations in f32, rounding each result to the type of its tensor. `place` gives
/// the host's address of a tensor that is not virtual.
void computeOperations(const DnnOperations &graph, const DnnOrder &order,
                       const std::function<char *(int)> &place);

} // namespace shale::stub

#endif
