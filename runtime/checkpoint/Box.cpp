// Places of a box's elements in the parameter.
#include "runtime/checkpoint/Box.h"

#include <tuple>

namespace shale::rt {

int64_t Box::count() const {
  int64_t count = 1;
  for (int64_t n : size)
    count *= n;
  return count;
}

int64_t Box::below(int64_t elements) const {
  if (isWhole())
    return elements;
  int64_t inner = 1, innerSize = 1; // elements per index of a dimension: of the parameter, the box
  for (size_t d = 0; d < dims.size(); ++d) {
    inner *= dims[d];
    innerSize *= size[d];
  }
  int64_t count = 0;
  if (inner == 0 || innerSize == 0)
    return 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    inner /= dims[d];
    innerSize /= size[d];
    int64_t index = elements / inner;
    elements %= inner;
    count += std::clamp<int64_t>(index - start[d], 0, size[d]) * innerSize;
    if (index < start[d] || index >= start[d] + size[d])
      break;
  }
  return count;
}

int64_t Box::globalOf(int64_t local) const {
  if (isWhole())
    return local;
  int64_t global = 0, stride = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    global += (start[d] + local % size[d]) * stride;
    local /= size[d];
    stride *= dims[d];
  }
  return global;
}

int64_t Box::run() const {
  int64_t run = 1;
  for (size_t d = dims.size(); d-- > 0;) {
    run *= size[d];
    if (start[d] != 0 || size[d] != dims[d])
      break;
  }
  return run;
}

int64_t Box::heldOfRun() const {
  return isPadded() ? std::max<int64_t>(dims.back() - start.back(), 0) : run();
}

int64_t Box::held(int64_t begin, int64_t end) const {
  if (!isPadded())
    return end - begin;
  int64_t row = size.back(), used = heldOfRun();
  auto first = [&](int64_t local) { return local / row * used + std::min(local % row, used); };
  return first(end) - first(begin);
}

bool Box::operator<(const Box &other) const {
  return std::tie(start, size, dims) < std::tie(other.start, other.size, other.dims);
}

bool areDisjoint(const Box &a, const Box &b) {
  if (a.dims != b.dims)
    return false;
  for (size_t d = 0; d < a.dims.size(); ++d)
    if (a.start[d] + a.size[d] <= b.start[d] || b.start[d] + b.size[d] <= a.start[d])
      return true;
  return false;
}

} // namespace shale::rt
