// The part of a parameter that a rank holds when tensor axes split it.
#ifndef SHALE_RUNTIME_CHECKPOINT_BOX_H
#define SHALE_RUNTIME_CHECKPOINT_BOX_H

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shale::rt {

/// In each dimension d the indices [start[d], start[d] + size[d]) of `dims[d]`. `dims` are those of
/// the parameter or finer: their product is its number of elements. Without dimensions: the whole
/// parameter. The elements of a box are numbered row-major, so in the order of the parameter's.
/// If a box has two or more dimensions, its last dimension may pass the end of the parameter's.
/// Each row of the box then ends with padding, which has numbers, too.
struct Box {
  std::vector<int64_t> dims, start, size;

  bool isWhole() const { return dims.empty(); }
  /// Whether rows end with padding.
  bool isPadded() const { return !isWhole() && start.back() + size.back() > dims.back(); }
  /// Returns the number of elements of a box with dimensions, padding included.
  int64_t count() const;
  /// Returns how many of the elements [begin, end) are no padding.
  int64_t held(int64_t begin, int64_t end) const;
  /// Returns the number of the box's first element that is not one of the parameter's first
  /// `elements` elements, nor the padding of a row of them.
  int64_t below(int64_t elements) const;
  /// Returns the place in the parameter of element `local` of the box, which is no padding.
  int64_t globalOf(int64_t local) const;
  /// Returns how many elements of the box, but for padding, follow one another in the parameter,
  /// from each multiple of this number on. The box has dimensions.
  int64_t run() const;
  /// Returns how many elements of such a run are no padding: its first ones.
  int64_t heldOfRun() const;
  bool operator==(const Box &other) const {
    return dims == other.dims && start == other.start && size == other.size;
  }
  bool operator<(const Box &other) const;
};

/// Calls `visit(local, global, count)` for the elements [begin, end) of the box, in order, in
/// pieces that follow one another in the parameter: `count` elements from `local` of the box are
/// those from `global` of the parameter. Leaves out padding.
template <typename Visit>
void forRuns(const Box &box, int64_t begin, int64_t end, const Visit &visit) {
  if (box.isWhole()) {
    if (begin < end)
      visit(begin, begin, end - begin);
    return;
  }
  int64_t run = box.run(), held = box.heldOfRun();
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(run - at % run, end - at), used = std::min(n, held - at % run);
    if (used > 0)
      visit(at, box.globalOf(at), used);
    at += n;
  }
}

/// Whether no element of the parameter is in both boxes. Boxes of other dimensions count as
/// overlapping.
bool areDisjoint(const Box &a, const Box &b);

} // namespace shale::rt

#endif
