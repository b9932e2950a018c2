//===- Elements.h - Where a value's elements come from --------------------===//
#ifndef SHALE_INTERFACES_ELEMENTS_H
#define SHALE_INTERFACES_ELEMENTS_H

#include "llvm/ADT/StringRef.h"
#include <cstdint>
#include <optional>

namespace mlir {
class Operation;
} // namespace mlir

namespace shale {

/// Where a view's result lies in the bytes of an operand.
struct ViewPlace {
  unsigned operand = 0;
  /// Bytes from the operand's start.
  int64_t offset = 0;
  /// A mesh axis, or empty. With an axis the result lies coordinate(axis) times
  /// its own size in bytes further on.
  llvm::StringRef axis = {};
};

/// Which elements of an operand are elements of a result, unchanged in value.
enum class MovedElements { None, Some, All };

/// The valid indices of an op: [0, size), and `also` if it is set.
struct IndexRange {
  int64_t size;
  std::optional<int64_t> also = std::nullopt;
};

/// Whether each result of `op` is (part of) an operand's bytes, so that it costs
/// nothing.
bool isView(mlir::Operation *op);

} // namespace shale

#endif // SHALE_INTERFACES_ELEMENTS_H
