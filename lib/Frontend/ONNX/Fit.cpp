//===- Fit.cpp - Finds functions of parameters by value -------------------===//
#include "lib/Frontend/ONNX/Record/Expression.h"
#include "llvm/ADT/STLExtras.h"
#include <cmath>
#include <set>
#include <unordered_map>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

static double largest(const Numbers &numbers) {
  double most = 0;
  for (double value : numbers.values)
    most = std::max(most, std::abs(value));
  return most;
}

// ---- movements

static SmallVector<int64_t> stridesOf(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

Movement onnx::reshapeTo(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  Movement movement;
  movement.split.assign(from.begin(), from.end());
  movement.starts.assign(from.size(), 0);
  movement.limits.assign(from.begin(), from.end());
  movement.strides.assign(from.size(), 1);
  for (size_t i = 0; i < from.size(); ++i)
    movement.perm.push_back(i);
  movement.kept.assign(to.begin(), to.end());
  movement.shape.assign(to.begin(), to.end());
  return movement;
}

/// A dimension of the constant: `size` elements `stride` apart in the parameter.
struct Axis {
  int64_t size, stride;
};

/// Splits an axis that runs over several of the parameter's dimensions.
static SmallVector<Axis> splitAxis(Axis axis, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides) {
  SmallVector<Axis> parts;
  for (size_t k = shape.size(); k-- > 0;)
    if (axis.stride == strides[k] && axis.size > shape[k] && shape[k] > 0 &&
        axis.size % shape[k] == 0) {
      parts.insert(parts.begin(), {shape[k], axis.stride});
      axis = {axis.size / shape[k], axis.stride * shape[k]};
    }
  parts.insert(parts.begin(), axis);
  return parts;
}

/// Returns the movement that reads element `base + sum of index * stride` of the parameter; none if
/// it fails.
static std::optional<Movement> toMovement(ArrayRef<int64_t> parameterShape,
                                          ArrayRef<int64_t> constantShape, int64_t base,
                                          ArrayRef<int64_t> constantStrides) {
  // The parameter's dimensions, cut where an axis of the constant steps over a part of one.
  SmallVector<int64_t> split(parameterShape.begin(), parameterShape.end());
  if (split.empty())
    split.push_back(1);
  for (auto [size, stride] : llvm::zip(constantShape, constantStrides)) {
    SmallVector<int64_t> strides = stridesOf(split);
    for (size_t k = 0; k < split.size(); ++k) {
      int64_t part = stride > 0 && size > 1 && stride % strides[k] == 0 ? stride / strides[k] : 1;
      if (part > 1 && part < split[k] && split[k] % part == 0 &&
          (size - 1) * part >= split[k] - part) {
        split[k] /= part;
        split.insert(split.begin() + k + 1, part);
        break;
      }
    }
  }
  SmallVector<int64_t> strides = stridesOf(split);
  SmallVector<Axis> axes;
  Movement movement;
  for (auto [size, stride] : llvm::zip(constantShape, constantStrides)) {
    bool repeated = size > 1 && stride == 0;
    movement.kept.push_back(repeated ? 1 : size);
    if (size > 1 && !repeated)
      llvm::append_range(axes, splitAxis({size, stride}, split, strides));
  }
  movement.split = split;
  movement.shape.assign(constantShape.begin(), constantShape.end());
  SmallVector<int64_t> order;
  SmallVector<bool> taken(split.size(), false);
  for (size_t k = 0; k < split.size(); ++k) {
    movement.starts.push_back(base / strides[k] % split[k]);
    movement.limits.push_back(movement.starts.back() + 1);
    movement.strides.push_back(1);
  }
  for (const Axis &axis : axes) {
    size_t found = split.size();
    for (size_t k = 0; k < split.size(); ++k) {
      int64_t step = axis.stride / strides[k];
      if (!taken[k] && axis.stride > 0 && axis.stride % strides[k] == 0 && split[k] > 1 &&
          movement.starts[k] + (axis.size - 1) * step < split[k]) {
        found = k;
        break;
      }
    }
    if (found == split.size())
      return std::nullopt;
    int64_t step = axis.stride / strides[found];
    taken[found] = true;
    movement.strides[found] = step;
    movement.limits[found] = movement.starts[found] + (axis.size - 1) * step + 1;
    order.push_back(found);
  }
  for (size_t k = 0; k < split.size(); ++k)
    if (!taken[k])
      movement.perm.push_back(k);
  llvm::append_range(movement.perm, order);
  return movement;
}

/// Finds the elements of `constant` in `parameter` by value; their places must be an affine map of
/// the indices.
static std::optional<Movement> fitMovement(const Numbers &parameter, const Numbers &constant) {
  std::unordered_map<double, int64_t> places; // -1: there more than once
  for (int64_t i = 0; i < parameter.size(); ++i)
    if (auto [it, isNew] = places.try_emplace(parameter.values[i], i); !isNew)
      it->second = -1;
  auto find = [&](int64_t element) {
    auto it = places.find(constant.values[element]);
    return it == places.end() ? -1 : it->second;
  };
  int64_t base = find(0);
  if (base < 0)
    return std::nullopt;
  SmallVector<int64_t> own = stridesOf(constant.shape), strides;
  for (auto [size, stride] : llvm::zip(constant.shape, own)) {
    int64_t next = size > 1 ? find(stride) : base;
    if (next < 0)
      return std::nullopt;
    strides.push_back(next - base);
  }
  for (int64_t i = 0; i < constant.size(); ++i) {
    int64_t place = base;
    for (size_t d = 0; d < own.size(); ++d)
      place += i / own[d] % constant.shape[d] * strides[d];
    if (place < 0 || place >= parameter.size() || parameter.values[place] != constant.values[i])
      return std::nullopt;
  }
  return toMovement(parameter.shape, constant.shape, base, strides);
}

// ---- fits

/// Rounds `value` to a number with few digits if one is within 4 * `unit`.
static double simplified(double value, double unit) {
  for (double digits : {1.0, 2.0, 4.0, 10.0, 100.0, 1000.0})
    if (double near = std::round(value * digits) / digits; std::abs(near - value) <= 4 * unit)
      return near;
  return value;
}

/// Fits constant = scale * values + shift, element by element; returns whether it holds.
static bool fitLine(const Numbers &values, const Numbers &constant, double &scale, double &shift) {
  auto [low, high] = std::minmax_element(values.values.begin(), values.values.end());
  int64_t i = low - values.values.begin(), j = high - values.values.begin();
  if (!(*high > *low))
    return false;
  double unit = std::max(1.0, largest(constant)) * constant.tolerance;
  scale = simplified((constant.values[j] - constant.values[i]) / (*high - *low), unit);
  shift = simplified(constant.values[i] - scale * *low, unit);
  if (scale == 0)
    return false;
  double most = std::max(largest(constant), std::abs(shift));
  for (int64_t k = 0; k < values.size(); ++k)
    if (!(std::abs(scale * values.values[k] + shift - constant.values[k]) <=
          constant.tolerance * most))
      return false;
  return true;
}

std::optional<Expression> onnx::fitExpression(const Numbers &parameter, const Numbers &constant,
                                              StringRef op) {
  if (parameter.isNearlyConstant() || constant.values.empty())
    return std::nullopt;
  auto moved = [](Movement movement) {
    Expression result = Expression::of("move", Expression::ofInput());
    result.movement = std::move(movement);
    return result;
  };
  // Constants with few distinct numbers occur in many parameters. A single number counts as an
  // element only after a movement.
  bool telling = constant.size() == 1 ? isMovement(op) : !constant.isNearlyConstant();
  if (telling && (op.empty() || isMovement(op)))
    if (std::optional<Movement> movement = fitMovement(parameter, constant))
      return moved(*movement);
  if (constant.size() != parameter.size() || constant.isNearlyConstant())
    return std::nullopt;
  const std::pair<const char *, double (*)(double)> functions[] = {
      {"", [](double x) { return x; }},
      {"exp", [](double x) { return std::exp(x); }},
      {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"softplus", [](double x) { return x > 20 ? x : std::log1p(std::exp(x)); }}};
  for (auto [name, function] : functions) {
    Numbers values = parameter;
    for (double &value : values.values)
      value = function(value);
    double scale, shift;
    if (!llvm::all_of(values.values, [](double value) { return std::isfinite(value); }) ||
        !fitLine(values, constant, scale, shift))
      continue;
    Expression result = parameter.shape == constant.shape
                            ? Expression::ofInput()
                            : moved(reshapeTo(parameter.shape, constant.shape));
    if (*name)
      result = Expression::of(name, std::move(result));
    result = affine(std::move(result), scale, shift);
    if (agrees(result, op))
      return result;
  }
  return std::nullopt;
}

// ---- tables

/// Whether x[t+1] + x[t-1] = c x[t] in every line along a dimension of `size` elements `stride`
/// apart, with a c per line. At most half of the lines may be constant, since all are if a value
/// was repeated.
static bool hasRecurrence(const Numbers &numbers, int64_t size, int64_t stride) {
  if (size < 4)
    return false;
  double most = std::max(largest(numbers), 1e-30);
  int64_t constant = 0;
  for (int64_t first = 0; first < numbers.size(); ++first) {
    if (first / stride % size != 0)
      continue;
    auto x = [&](int64_t t) { return numbers.values[first + t * stride]; };
    int64_t pivot = 1, t = 1;
    while (t < size && x(t) == x(0))
      ++t;
    constant += t == size;
    for (t = 1; t + 1 < size; ++t)
      if (std::abs(x(t)) > std::abs(x(pivot)))
        pivot = t;
    double factor = x(pivot) != 0 ? (x(pivot + 1) + x(pivot - 1)) / x(pivot) : 0;
    for (t = 1; t + 1 < size; ++t)
      if (!(std::abs(x(t + 1) + x(t - 1) - factor * x(t)) <= 1e-4 * most))
        return false;
  }
  return 2 * constant * size <= numbers.size();
}

bool onnx::isMask(const Numbers &constant) {
  std::set<double> seen;
  for (double value : constant.values)
    if (seen.insert(value).second && seen.size() > 2)
      return false;
  return seen.size() == 2 &&
         llvm::any_of(seen, [](double value) { return value == 0 || value == 1 || value <= -1e4; });
}

bool onnx::isTable(const Numbers &constant) {
  if (isMask(constant))
    return true;
  SmallVector<int64_t> strides = stridesOf(constant.shape);
  for (auto [size, stride] : llvm::zip(constant.shape, strides))
    if (!constant.values.empty() && hasRecurrence(constant, size, stride))
      return true;
  return false;
}
