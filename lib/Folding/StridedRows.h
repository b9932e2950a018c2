//===- StridedRows.h - Loops over buffers with strides --------------------===//
#ifndef SHALE_FOLDING_STRIDEDROWS_H
#define SHALE_FOLDING_STRIDEDROWS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include <array>
#include <cstdint>

namespace shale::folding {

/// The rows of N buffers of one shape. Dimensions that follow each other in the memory of all
/// buffers are one, so rows are as long as possible.
template <size_t N> class StridedRows {
public:
  /// One number per buffer: offsets or strides, in elements.
  using Numbers = std::array<int64_t, N>;

  StridedRows(llvm::ArrayRef<int64_t> shape,
              const std::array<llvm::ArrayRef<int64_t>, N> &strides) {
    isEmpty = llvm::is_contained(shape, 0);
    for (size_t d = 0; d < shape.size() && !isEmpty; ++d) {
      if (shape[d] == 1)
        continue;
      Dimension next{shape[d], {}};
      for (size_t k = 0; k < N; ++k)
        next.strides[k] = strides[k][d];
      bool joins = !dimensions.empty();
      for (size_t k = 0; k < N && joins; ++k)
        joins = dimensions.back().strides[k] == next.strides[k] * next.size;
      if (joins)
        dimensions.back() = {dimensions.back().size * next.size, next.strides};
      else
        dimensions.push_back(next);
    }
    if (dimensions.empty())
      dimensions.push_back({1, {}});
  }

  /// Calls fn(offsets, strides, count) for each row, in row-major order: the elements of buffer k
  /// are at offsets[k] + i * strides[k] for i < count.
  template <typename Fn> void forEach(Fn fn) const {
    if (isEmpty)
      return;
    const Dimension &row = dimensions.back();
    llvm::SmallVector<int64_t> index(dimensions.size() - 1, 0);
    Numbers offsets{};
    while (true) {
      fn(offsets, row.strides, row.size);
      int64_t d = int64_t(index.size()) - 1;
      for (; d >= 0; --d) {
        const Dimension &outer = dimensions[d];
        bool wraps = ++index[d] == outer.size;
        for (size_t k = 0; k < N; ++k)
          offsets[k] += outer.strides[k] * (wraps ? 1 - outer.size : 1);
        if (!wraps)
          break;
        index[d] = 0;
      }
      if (d < 0)
        return;
    }
  }

private:
  struct Dimension {
    int64_t size;
    Numbers strides;
  };
  llvm::SmallVector<Dimension> dimensions;
  bool isEmpty;
};

} // namespace shale::folding

#endif // SHALE_FOLDING_STRIDEDROWS_H
