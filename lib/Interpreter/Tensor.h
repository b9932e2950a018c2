//===- Tensor.h - A tensor value in the interpreter -----------------------===//
//
// Every element takes one 8-byte cell: floats of all types are held as f64,
// integers and booleans as int64. The interpreter rounds each result to its
// declared type, so evaluators compute in f64 and int64 and never round.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_INTERPRETER_TENSOR_H
#define SHALE_INTERPRETER_TENSOR_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/SmallVector.h"
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace shale::interp {

enum class Element : uint8_t { F32, F64, BF16, F16, F8E4M3, F8E5M2, I64, I32, I1 };

std::optional<Element> elementOf(mlir::Type type);
mlir::Type typeOf(mlir::MLIRContext *context, Element element);
bool isFloat(Element element);
/// Returns the bytes of one element in memory and files; a boolean takes one
/// byte.
int64_t bytesOf(Element element);
/// Rounds to the nearest value of the element type, ties to even. Numbers beyond the range of 8-bit
/// floats become the largest finite number.
double roundFloat(Element element, double value);
/// Wraps an integer to the width of its type; booleans become 0 or 1.
int64_t wrapInt(Element element, int64_t value);

/// The bits of an element of any type, for data movement.
typedef uint64_t __attribute__((may_alias)) Cell;

/// Row-major elements with a shape. Copies share storage; the mutable accessors
/// copy shared storage first.
class Tensor {
public:
  Tensor() = default;
  /// Elements are not initialized. The caller must have checked the size.
  Tensor(Element element, llvm::ArrayRef<int64_t> shape);
  static Tensor scalar(Element element, double value);
  /// Creates a token that holds the results of an op that is started and not
  /// yet waited for.
  static Tensor token(std::vector<Tensor> pending);

  bool isToken() const { return pendingTensors != nullptr; }
  const std::vector<Tensor> &pending() const { return *pendingTensors; }
  explicit operator bool() const { return storage || pendingTensors; }

  Element element() const { return elementKind; }
  bool isFloat() const { return interp::isFloat(elementKind); }
  llvm::ArrayRef<int64_t> shape() const { return dims; }
  int64_t rank() const { return dims.size(); }
  int64_t dim(int64_t i) const { return dims[i]; }
  int64_t size() const { return count; }
  /// Row-major strides in elements.
  llvm::SmallVector<int64_t> strides() const;

  const double *floats() const { return static_cast<double *>(storage.get()); }
  const int64_t *ints() const { return static_cast<int64_t *>(storage.get()); }
  const Cell *cells() const { return static_cast<Cell *>(storage.get()); }
  double *mutableFloats() { return static_cast<double *>(unshare()); }
  int64_t *mutableInts() { return static_cast<int64_t *>(unshare()); }
  Cell *mutableCells() { return static_cast<Cell *>(unshare()); }

  /// Returns element i, a float or an integer, as double.
  double number(int64_t i) const {
    return isFloat() ? floats()[i] : static_cast<double>(ints()[i]);
  }
  /// Sets element i, a float or an integer, without rounding to the declared type.
  void setNumber(int64_t i, double value);
  void fill(double value);

  /// Returns the same elements in another shape of equal size.
  Tensor reshaped(llvm::ArrayRef<int64_t> shape) const;
  /// Returns elements [begin, begin + length) along `dim`.
  Tensor slice(int64_t dim, int64_t begin, int64_t length) const;

  /// Returns the same numbers, rounded to another float type.
  Tensor rounded(Element to) const;

  /// Rounds every element to the declared type.
  void roundToElement();

  // Bytes as in memory and files: little-endian, of the declared type.
  int64_t byteSize() const { return count * bytesOf(elementKind); }
  /// Convert to and from elements of the declared type, as in files: byteSize() bytes.
  void toBytes(char *bytes) const;
  static Tensor fromBytes(Element element, llvm::ArrayRef<int64_t> shape, const char *bytes);

  /// Returns a null tensor for attributes that hold no elements (resources).
  static Tensor fromAttr(mlir::ElementsAttr attr);
  mlir::DenseElementsAttr toAttr(mlir::MLIRContext *context) const;

  std::string shapeString() const;

private:
  void *unshare();

  Element elementKind = Element::F32;
  llvm::SmallVector<int64_t, 4> dims;
  int64_t count = 0;
  std::shared_ptr<void> storage;
  std::shared_ptr<std::vector<Tensor>> pendingTensors;
};

/// Calls fn(i, offset) for each index of `shape` in row-major order. i is the
/// number of the call from 0, offset is `base` plus the index times `strides`.
template <typename Fn>
void walk(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides, int64_t base, Fn fn) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  if (shape.empty()) {
    fn(int64_t(0), base);
    return;
  }
  int64_t last = shape.size() - 1, i = 0;
  llvm::SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    int64_t offset = base;
    for (int64_t j = 0; j < shape[last]; ++j, offset += strides[last])
      fn(i++, offset);
    int64_t d = last - 1;
    for (; d >= 0; --d) {
      base += strides[d];
      if (++index[d] < shape[d])
        break;
      base -= strides[d] * shape[d];
      index[d] = 0;
    }
    if (d < 0)
      return;
  }
}

} // namespace shale::interp

#endif // SHALE_INTERPRETER_TENSOR_H
