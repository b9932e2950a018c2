//===- TypedBuffer.cpp - Elements of a constant, with strides -------------===//
#include "lib/Folding/TypedBuffer.h"
#include "lib/Folding/StridedRows.h"
#include <cstring>
#include <new>

using namespace mlir;

namespace shale::folding {

std::optional<ElementKind> kindOf(Type element) {
  if (element.isF64())
    return ElementKind::F64;
  if (element.isF32())
    return ElementKind::F32;
  if (element.isF16())
    return ElementKind::F16;
  if (element.isBF16())
    return ElementKind::BF16;
  if (element.isSignlessInteger(64))
    return ElementKind::I64;
  if (element.isSignlessInteger(32))
    return ElementKind::I32;
  if (element.isSignlessInteger(1))
    return ElementKind::I1;
  return std::nullopt;
}

int64_t widthOf(ElementKind kind) {
  switch (kind) {
  case ElementKind::F64:
  case ElementKind::I64:
    return 8;
  case ElementKind::F32:
  case ElementKind::I32:
    return 4;
  case ElementKind::F16:
  case ElementKind::BF16:
    return 2;
  case ElementKind::I1:
    return 1;
  }
  return 0;
}

/// Returns the number of elements of a shape; none if it overflows.
static std::optional<int64_t> countOf(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      return std::nullopt;
  return count;
}

SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 0);
  if (llvm::is_contained(shape, 0))
    return strides;
  int64_t stride = 1;
  for (int64_t d = int64_t(shape.size()) - 1; d >= 0; stride *= shape[d--])
    strides[d] = stride;
  return strides;
}

std::optional<TypedBuffer> TypedBuffer::allocate(ElementKind kind, ArrayRef<int64_t> shape) {
  std::optional<int64_t> count = countOf(shape);
  int64_t size;
  if (!count || __builtin_mul_overflow(*count, widthOf(kind), &size))
    return std::nullopt;
  void *memory = ::operator new(std::max<int64_t>(size, 1), std::nothrow);
  if (!memory)
    return std::nullopt;
  TypedBuffer buffer;
  buffer.elementKind = kind;
  buffer.sizes.assign(shape.begin(), shape.end());
  buffer.steps = rowMajorStrides(shape);
  buffer.owner =
      std::shared_ptr<char>(static_cast<char *>(memory), [](char *p) { ::operator delete(p); });
  buffer.bytes = buffer.owner.get();
  return buffer;
}

std::optional<TypedBuffer> TypedBuffer::of(DenseElementsAttr attr) {
  std::optional<ElementKind> kind = kindOf(attr.getElementType());
  ArrayRef<int64_t> shape = attr.getType().getShape();
  std::optional<int64_t> count = countOf(shape);
  if (!kind || !count)
    return std::nullopt;
  bool isSplat = attr.isSplat();
  ArrayRef<char> raw = attr.getRawData();
  if (*kind == ElementKind::I1) {
    // A constant has eight booleans per byte, the first one lowest; a splat has a byte of its own.
    std::optional<TypedBuffer> flat = allocate(*kind, isSplat ? 1 : *count);
    if (!flat)
      return std::nullopt;
    char *to = flat->mutableData();
    if (isSplat)
      to[0] = attr.getSplatValue<bool>();
    else
      for (int64_t i = 0; i < *count; ++i)
        to[i] = (raw[i / 8] >> (i % 8)) & 1;
    return flat->view(shape,
                      isSplat ? SmallVector<int64_t>(shape.size(), 0) : rowMajorStrides(shape));
  }
  TypedBuffer buffer;
  buffer.elementKind = *kind;
  buffer.sizes.assign(shape.begin(), shape.end());
  if (isSplat)
    buffer.steps.assign(shape.size(), 0);
  else
    buffer.steps = rowMajorStrides(shape);
  buffer.bytes = raw.data();
  return buffer;
}

int64_t TypedBuffer::size() const {
  int64_t count = 1;
  for (int64_t size : sizes)
    count *= size;
  return count;
}

bool TypedBuffer::isSplat() const {
  return size() > 0 && llvm::all_of(llvm::zip(sizes, steps), [](auto each) {
           auto [size, step] = each;
           return size == 1 || step == 0;
         });
}

bool TypedBuffer::isRowMajor() const {
  int64_t stride = 1;
  for (int64_t d = rank() - 1; d >= 0; stride *= sizes[d--])
    if (sizes[d] != 1 && steps[d] != stride)
      return size() == 0;
  return true;
}

char *TypedBuffer::mutableData() const {
  assert(owner && "the memory of constants is not written");
  return const_cast<char *>(bytes);
}

TypedBuffer TypedBuffer::view(ArrayRef<int64_t> shape, ArrayRef<int64_t> strides,
                              int64_t offset) const {
  assert(shape.size() == strides.size() && "one stride per dimension");
  TypedBuffer result = *this;
  result.sizes.assign(shape.begin(), shape.end());
  result.steps.assign(strides.begin(), strides.end());
  result.bytes += offset * widthOf(elementKind);
  return result;
}

TypedBuffer TypedBuffer::repeated(ArrayRef<int64_t> shape) const {
  SmallVector<int64_t> strides(steps);
  for (auto [stride, from, to] : llvm::zip_equal(strides, sizes, shape))
    if (from != to)
      stride = 0;
  return view(shape, strides);
}

std::optional<TypedBuffer> TypedBuffer::rowMajor() const {
  if (isRowMajor())
    return *this;
  std::optional<TypedBuffer> result = allocate(elementKind, sizes);
  if (result)
    copyElements(*this, *result);
  return result;
}

/// Returns the shape with size 1 along dimensions that repeat.
static SmallVector<int64_t> distinctShape(const TypedBuffer &buffer) {
  SmallVector<int64_t> shape(buffer.shape());
  for (auto [size, stride] : llvm::zip_equal(shape, buffer.strides()))
    if (size > 1 && stride == 0)
      size = 1;
  return shape;
}

DenseElementsAttr TypedBuffer::toAttr(RankedTensorType type) const {
  assert(type.getShape() == shape() && kindOf(type.getElementType()) == elementKind &&
         "another type");
  int64_t width = widthOf(elementKind);
  // Elements that repeat are compared and copied once.
  std::optional<TypedBuffer> source = view(distinctShape(*this), steps).rowMajor();
  if (!source)
    return {};
  int64_t count = source->size();
  if (count > 0 && std::memcmp(source->data(), source->data() + width, (count - 1) * width) == 0)
    count = 1;
  else if (source = source->repeated(sizes).rowMajor(); !source)
    return {};
  else
    count = source->size();
  if (elementKind == ElementKind::I1)
    return DenseElementsAttr::get(
        type, ArrayRef<bool>(reinterpret_cast<const bool *>(source->data()), count));
  return DenseElementsAttr::getFromRawBuffer(type, ArrayRef<char>(source->data(), count * width));
}

/// Copies `count` elements between rows.
template <typename Cell>
static void copyRow(const char *from, int64_t fromStride, char *to, int64_t toStride,
                    int64_t count) {
  if (fromStride == 1 && toStride == 1) {
    std::memcpy(to, from, count * sizeof(Cell));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    std::memcpy(to + i * toStride * int64_t(sizeof(Cell)),
                from + i * fromStride * int64_t(sizeof(Cell)), sizeof(Cell));
}

void copyElements(const TypedBuffer &from, const TypedBuffer &to) {
  assert(from.kind() == to.kind() && from.shape() == to.shape() && "another type");
  int64_t width = widthOf(from.kind());
  auto *copy = width == 8   ? copyRow<uint64_t>
               : width == 4 ? copyRow<uint32_t>
               : width == 2 ? copyRow<uint16_t>
                            : copyRow<uint8_t>;
  StridedRows<2>(from.shape(), {from.strides(), to.strides()})
      .forEach([&](const auto &offsets, const auto &strides, int64_t count) {
        copy(from.data() + offsets[0] * width, strides[0], to.mutableData() + offsets[1] * width,
             strides[1], count);
      });
}

} // namespace shale::folding
