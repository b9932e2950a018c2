//===- Layout.cpp - Arguments that were moved before they were folded -----===//
#include "lib/Frontend/ONNX/Record/Layout.h"
#include "llvm/ADT/STLExtras.h"

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;

/// Returns the items of a list of whole numbers; none if it is another argument.
static std::optional<SmallVector<int64_t>> numbersOf(const Argument &list) {
  SmallVector<int64_t> numbers;
  for (const Argument &item : list.items) {
    if (!item.isNumber() || !(std::abs(item.number) < 0x1p31))
      return std::nullopt;
    numbers.push_back(int64_t(item.number));
  }
  return list.kind == Argument::Kind::List ? std::optional(numbers) : std::nullopt;
}

/// Returns the number of elements, or -1 if it is too large to count.
static int64_t countOf(ArrayRef<int64_t> sizes) {
  int64_t count = 1;
  for (int64_t size : sizes)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      return -1;
  return count;
}

/// Replaces a size of -1 by the one with which there are `count` elements. Returns whether there
/// are as many.
static bool complete(SmallVector<int64_t> &sizes, int64_t count) {
  auto *open = llvm::find(sizes, -1);
  if (open != sizes.end()) {
    *open = 1;
    int64_t others = countOf(sizes);
    *open = others > 0 ? count / others : -1;
  }
  return count >= 0 && countOf(sizes) == count;
}

std::optional<Layout> Layout::of(ArrayRef<int64_t> dims, const Argument &perm,
                                 const Argument &sizes) {
  Layout layout{{}, {}, SmallVector<int64_t>(dims)};
  size_t rank = sizes.isNone() ? dims.size() : sizes.items.size();
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  layout.perm = order;
  if (!perm.isNone()) {
    std::optional<SmallVector<int64_t>> numbers = numbersOf(perm);
    if (!numbers || numbers->size() != rank ||
        !std::is_permutation(order.begin(), order.end(), numbers->begin()))
      return std::nullopt;
    layout.perm = *numbers;
  }
  if (sizes.isNone()) {
    layout.shape.resize(rank);
    for (size_t i = 0; i < rank; ++i)
      layout.shape[layout.perm[i]] = dims[i];
    return layout;
  }
  std::optional<SmallVector<int64_t>> own = numbersOf(sizes);
  if (!own || !complete(*own, countOf(dims)))
    return std::nullopt;
  layout.shape = *own;
  return layout;
}

bool Layout::movesElements() const {
  // A dimension of one element may be anywhere.
  SmallVector<int64_t> large(perm);
  llvm::erase_if(large, [&](int64_t dim) { return shape[dim] == 1; });
  return !llvm::is_sorted(large);
}

Expression Layout::expression() const {
  Expression moved = Expression::of("permute", Expression::ofInput(),
                                    std::vector<double>(perm.begin(), perm.end()));
  return Expression::of("reshape", std::move(moved), std::vector<double>(dims.begin(), dims.end()));
}

std::vector<double> Layout::argumentOf(ArrayRef<double> constant) const {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;)
    strides[d - 1] = strides[d] * shape[d];
  std::vector<double> result(constant.size());
  for (size_t i = 0; i < constant.size(); ++i) {
    int64_t rest = int64_t(i), place = 0;
    for (int64_t dim : llvm::reverse(perm)) {
      place += rest % shape[dim] * strides[dim];
      rest /= shape[dim];
    }
    result[place] = constant[i];
  }
  return result;
}
