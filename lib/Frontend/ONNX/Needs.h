//===- Needs.h - What operators need of their nodes -----------------------===//
#ifndef SHALE_FRONTEND_ONNX_NEEDS_H
#define SHALE_FRONTEND_ONNX_NEEDS_H

#include "lib/Frontend/ONNX/Tensor.h"
#include <array>

namespace shale::onnx {

/// Numbers that a node gives as an attribute, and from an operator set on as operand 1.
struct MovedList {
  const char *name = nullptr;
  int64_t sinceOperand = 0;
};

/// The requirements of an operator. They are checked before its handler runs, which relies on them.
struct Needs {
  int count = 0; // operands [0, count) are there
  /// The first ones have floats, numbers (truth values are none) or truth values.
  int floats = 0, numbers = 0, truths = 0;
  unsigned ints = 0;                // bits of operands that are constants of integers, if there
  MovedList list = {};              // is known, if there
  std::optional<int64_t> axis = {}; // the default of attribute `axis`, a dimension of operand 0
  int leastRank = 0, mostRank = 0;  // of operand 0; no most rank if it is 0
  double epsilon = 0;               // the default of attribute `epsilon`, if it has the attribute
};
constexpr int kAllOperands = std::numeric_limits<int>::max();
constexpr Needs needs(int count) { return {count}; }
constexpr Needs floats(int first) { return {first, first}; }
constexpr Needs numbers(int first) { return {first, 0, first}; }
constexpr Needs truths(int first) { return {first, 0, 0, first}; }
template <typename... Operand> constexpr Needs knownInts(Operand... operands) {
  return {0, 0, 0, 0, ((1u << operands) | ...)};
}
constexpr Needs movedList(const char *name, int64_t sinceOperand) {
  return {0, 0, 0, 0, 0, {name, sinceOperand}};
}
constexpr Needs defaultAxis(int64_t missing) { return {1, 0, 0, 0, 0, {}, missing}; }
/// `most` may be left out: any.
constexpr Needs rank(int least, int most = 0) { return {1, 0, 0, 0, 0, {}, {}, least, most}; }
constexpr Needs epsilon(float missing) { return {0, 0, 0, 0, 0, {}, {}, 0, 0, missing}; }
constexpr Needs operator|(const Needs &a, const Needs &b) {
  return {std::max(a.count, b.count),
          std::max(a.floats, b.floats),
          std::max(a.numbers, b.numbers),
          std::max(a.truths, b.truths),
          a.ints | b.ints,
          b.list.name ? b.list : a.list,
          b.axis ? b.axis : a.axis,
          std::max(a.leastRank, b.leastRank),
          std::max(a.mostRank, b.mostRank),
          std::max(a.epsilon, b.epsilon)};
}

/// The operands and attributes of a node that its operator needs.
struct MetNeeds {
  /// The elements of each operand of `Needs::ints`; none if it is absent.
  std::array<Sizes, 8> ints;
  /// The numbers of `Needs::list`; nothing if they are absent.
  std::optional<Sizes> list;
  /// The dimension of operand 0 that `Needs::axis` gives.
  int64_t axis = 0;
  /// The number that `Needs::epsilon` gives, finite and not negative.
  double epsilon = 0;
};

/// Checks what the operator of a node needs. Returns failure after an error on the node.
mlir::FailureOr<MetNeeds> checkNeeds(Node &node, const Needs &needs);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_NEEDS_H
