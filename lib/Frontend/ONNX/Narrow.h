//===- Narrow.h - Integers of types that values do not have ---------------===//
//
// Values are i32, i64 or truth values. The other integers of a file, of 8, 16 and
// 32 bits, are held in a wider type, the carrier. The importer keeps the file's type
// beside each value and reduces results to its range, so that arithmetic wraps
// around as it does in that type.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_NARROW_H
#define SHALE_FRONTEND_ONNX_NARROW_H

#include "mlir/IR/Value.h"
#include <cstdint>
#include <optional>

namespace shale::onnx {

class Node;

/// An integer type of ONNX that values cannot have.
struct NarrowInteger {
  unsigned bits;
  bool isSigned;
  unsigned carrier; // bits of the type that holds it
};

/// Returns the type of an ONNX data type: uint8, int8, uint16, int16 or uint32; none for others.
std::optional<NarrowInteger> narrowInteger(int32_t dataType);

/// Returns the ONNX data type of a result if that is a narrow integer, else 0. `value` is the
/// result.
int32_t narrowResult(Node &node, int result, mlir::Value value);

/// Reduces a result of the node to a narrow type, unless the operator only moves or chooses
/// elements. Returns null after an error.
mlir::Value reduced(Node &node, mlir::Value value, int32_t dataType);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_NARROW_H
