//===- TypedBuffer.h - Elements of a constant, with strides ---------------===//
#ifndef SHALE_FOLDING_TYPEDBUFFER_H
#define SHALE_FOLDING_TYPEDBUFFER_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include <memory>
#include <optional>

namespace shale::folding {

/// The element types of constants that are folded.
enum class ElementKind : uint8_t { F64, F32, F16, BF16, I64, I32, I1 };

/// Returns the kind of an element type; none if constants of the type are not folded.
std::optional<ElementKind> kindOf(mlir::Type element);
/// Returns the bytes of one element; a boolean takes one.
int64_t widthOf(ElementKind kind);
inline bool isFloat(ElementKind kind) { return kind <= ElementKind::BF16; }

/// Elements in the bytes of their type, with a shape and with strides in elements. A stride of 0
/// repeats along its dimension: a splat has one element in memory. Copies and views share memory.
class TypedBuffer {
public:
  /// Returns the elements of a constant, without a copy unless they are booleans, whose bytes are 0
  /// or 1; none if their type has no kind. The constant's context must outlive the buffer.
  static std::optional<TypedBuffer> of(mlir::DenseElementsAttr attr);
  /// Returns a row-major buffer whose elements are not initialized; none if their number or bytes
  /// overflow 64 bits, or if there is not enough memory.
  static std::optional<TypedBuffer> allocate(ElementKind kind, llvm::ArrayRef<int64_t> shape);

  ElementKind kind() const { return elementKind; }
  llvm::ArrayRef<int64_t> shape() const { return sizes; }
  llvm::ArrayRef<int64_t> strides() const { return steps; }
  int64_t rank() const { return sizes.size(); }
  int64_t dim(int64_t i) const { return sizes[i]; }
  /// Returns the number of elements, repeated ones included.
  int64_t size() const;
  /// Whether all elements are one in memory.
  bool isSplat() const;
  /// Whether the elements lie row-major in memory, without gaps.
  bool isRowMajor() const;

  /// Returns the first element's bytes.
  const char *data() const { return bytes; }
  /// Returns the first element's bytes. Only buffers from allocate(), and views of them, have them.
  char *mutableData() const;

  /// Returns other elements of the same memory, the first one `offset` elements from this buffer's.
  TypedBuffer view(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides,
                   int64_t offset = 0) const;
  /// Returns the elements, repeated along dimensions of size 1 to `shape`, which has the same rank.
  TypedBuffer repeated(llvm::ArrayRef<int64_t> shape) const;
  /// Returns the same elements row-major, copied if they are not; none if there is not enough
  /// memory.
  std::optional<TypedBuffer> rowMajor() const;

  /// Returns a constant of a type that has the buffer's shape and kind, as a splat if all elements
  /// are equal; null if there is not enough memory.
  mlir::DenseElementsAttr toAttr(mlir::RankedTensorType type) const;

private:
  ElementKind elementKind = ElementKind::F64;
  llvm::SmallVector<int64_t> sizes, steps;
  const char *bytes = nullptr;
  /// The memory; null if a constant owns it.
  std::shared_ptr<char> owner;
};

/// Returns row-major strides in elements; zeros if the shape has no elements.
llvm::SmallVector<int64_t> rowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// Copies elements to a buffer of the same kind and shape.
void copyElements(const TypedBuffer &from, const TypedBuffer &to);

} // namespace shale::folding

#endif // SHALE_FOLDING_TYPEDBUFFER_H
