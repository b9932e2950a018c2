// Masks and position numbers, which older files of Hugging Face's libraries store beside weights.
#include "runtime/checkpoint/Masks.h"
#include "runtime/core/Types.h"

#include <algorithm>
#include <vector>

namespace shale::rt {

namespace {
constexpr double masked = -1e4; // the least that models add to a score that does not count

/// Reads the elements [first, first + count) as numbers.
void readNumbers(const InputFile &file, const TensorInfo &info, int64_t first, int64_t count,
                 std::vector<double> &numbers) {
  std::vector<char> bytes(count * sizeOf(info.type));
  file.readAt(info.offset + first * sizeOf(info.type), bytes.data(), bytes.size());
  numbers.resize(count);
  convert(info.type, bytes.data(), Dtype::F64, numbers.data(), count);
}

/// Whether a square has one number on and below its diagonal, and another above it.
bool isTriangle(const InputFile &file, const TensorInfo &info, int64_t n) {
  std::vector<double> row;
  double below = 0, above = 0;
  for (int64_t r = 0; r < n; ++r) {
    readNumbers(file, info, r * n, n, row);
    if (r == 0) {
      below = row[0];
      above = row[1];
      bool known = (below == 1 && above == 0) || (below == 0 && (above == 1 || above <= masked));
      if (!known)
        return false;
    }
    for (int64_t c = 0; c < n; ++c)
      if (row[c] != (c <= r ? below : above))
        return false;
  }
  return true;
}

bool isCount(const InputFile &file, const TensorInfo &info, int64_t n) {
  constexpr int64_t most = 1 << 16;
  std::vector<double> part;
  for (int64_t from = 0; from < n; from += most) {
    readNumbers(file, info, from, std::min(most, n - from), part);
    for (size_t i = 0; i < part.size(); ++i)
      if (part[i] != static_cast<double>(from + static_cast<int64_t>(i)))
        return false;
  }
  return true;
}
} // namespace

bool isMask(const InputFile &file, const TensorInfo &info, const std::string &name) {
  const std::vector<int64_t> &shape = info.shape;
  auto onesBefore = [&](size_t inner) {
    return shape.size() >= inner &&
           std::all_of(shape.begin(), shape.end() - inner, [](int64_t d) { return d == 1; });
  };
  if (onesBefore(2) && shape.back() == shape[shape.size() - 2] && shape.back() > 1)
    return isTriangle(file, info, shape.back());
  if (onesBefore(1) && shape.back() > 1)
    return isInteger(info.type) && isCount(file, info, shape.back());
  if (!onesBefore(0) || name.find("mask") == std::string::npos)
    return false;
  std::vector<double> one;
  readNumbers(file, info, 0, 1, one);
  return one[0] <= masked;
}

} // namespace shale::rt
