//===- Evaluate.cpp - Values of terms over the arguments of an operation --===//
#include "lib/Frontend/ONNX/Record/Form.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using Value = std::optional<Argument>;
using Kind = Argument::Kind;

namespace {

/// A call of a function, with its operands' values.
struct Call {
  ArrayRef<Argument> operands;
  size_t size;
  const Surroundings &around;

  /// Returns operand i if it is a number, or a list of one.
  std::optional<double> number(size_t i) const {
    if (i >= operands.size())
      return std::nullopt;
    const Argument &operand = operands[i];
    const Argument *only =
        operand.kind == Kind::List && operand.items.size() == 1 ? &operand.items.front() : &operand;
    return only->isNumber() ? std::optional(only->number) : std::nullopt;
  }
  /// Returns the items of operand i; empty if it is no list.
  ArrayRef<Argument> list(size_t i) const {
    return i < operands.size() ? ArrayRef(operands[i].items) : ArrayRef<Argument>();
  }
  bool isList(size_t i) const { return i < operands.size() && operands[i].kind == Kind::List; }
};

using Function = Value (*)(const Call &);

} // namespace

static Value valueOf(std::optional<double> number) {
  return number ? Value(Argument::of(*number)) : std::nullopt;
}

/// Returns the place of a dimension that may be counted from the end; none if it is not one of
/// `rank`.
static std::optional<size_t> placeOf(double dim, size_t rank) {
  double at = dim < 0 ? dim + double(rank) : dim;
  return at >= 0 && at < double(rank) ? std::optional(size_t(at)) : std::nullopt;
}

static Value length(const Call &call) {
  return call.isList(0) ? Value(Argument::of(double(call.list(0).size()))) : std::nullopt;
}

static Value negate(const Call &call) {
  std::optional<double> x = call.number(0);
  return valueOf(x ? std::optional(-*x) : std::nullopt);
}

static Value squareRoot(const Call &call) {
  std::optional<double> x = call.number(0);
  return valueOf(x ? std::optional(std::sqrt(*x)) : std::nullopt);
}

static Value add(const Call &call) {
  std::optional<double> x = call.number(0), y = call.number(1);
  return valueOf(x && y ? std::optional(*x + *y) : std::nullopt);
}

static Value subtract(const Call &call) {
  std::optional<double> x = call.number(0), y = call.number(1);
  return valueOf(x && y ? std::optional(*x - *y) : std::nullopt);
}

/// The number of a data type by PyTorch's name.
static Value dataType(const Call &call) {
  int type = words::dataTypeOf(call.operands.front().text);
  return type ? Value(Argument::of(type)) : std::nullopt;
}

/// The name of a loss's reduction. Source: torch/nn/_reduction.py.
static Value reduction(const Call &call) {
  std::optional<double> x = call.number(0);
  if (!x)
    return std::nullopt;
  return Argument{Kind::Text, *x == 0 ? "none" : *x == 1 ? "mean" : "sum"};
}

/// scale(s, q): the scale of attention, 1 / sqrt(size of the last dimension of q) if s is None.
static Value scale(const Call &call) {
  if (call.number(0))
    return valueOf(call.number(0));
  std::optional<SmallVector<int64_t>> shape = call.around.shapeOf(call.operands[1].text);
  if (!call.operands[0].isNone() || !shape || shape->empty() || shape->back() <= 0)
    return std::nullopt;
  return Argument::of(1 / std::sqrt(double(shape->back())));
}

/// fill(x, n): a list of n items, of which x may be the only one.
static Value fill(const Call &call) {
  size_t wanted = size_t(*call.number(1));
  if (call.list(0).size() == wanted)
    return call.operands[0];
  std::optional<double> x = call.number(0);
  return x ? Value(Argument::of(std::vector<Argument>(wanted, Argument::of(*x)))) : std::nullopt;
}

static Value twice(const Call &call) {
  std::vector<Argument> items = call.list(0).vec();
  items.insert(items.end(), call.list(0).begin(), call.list(0).end());
  return Argument::of(std::move(items));
}

/// swap(a, b): the order of all dimensions with a and b exchanged.
static Value swapped(const Call &call) {
  std::optional<double> x = call.number(0), y = call.number(1);
  std::optional<size_t> a = x ? placeOf(*x, call.size) : std::nullopt;
  std::optional<size_t> b = y ? placeOf(*y, call.size) : std::nullopt;
  if (!a || !b)
    return std::nullopt;
  std::vector<Argument> order;
  for (size_t i = 0; i < call.size; ++i)
    order.push_back(Argument::of(double(i)));
  std::swap(order[*a], order[*b]);
  return Argument::of(std::move(order));
}

/// ends(padding): PyTorch has the last dimension first, each as (before, after). ONNX has what is
/// before all dimensions, then what is after them.
static Value ends(const Call &call) {
  ArrayRef<Argument> padding = call.list(0);
  size_t rank = call.size / 2;
  if (padding.size() > call.size || padding.size() % 2 || call.size % 2)
    return std::nullopt;
  std::vector<Argument> result(call.size, Argument::of(0));
  for (size_t i = 0; i < padding.size(); ++i)
    result[(i % 2) * rank + rank - 1 - i / 2] = padding[i];
  return Argument::of(std::move(result));
}

/// rest(x, shift, dim): how many elements of a dimension a rotation leaves in their order.
static Value rest(const Call &call) {
  std::optional<double> shift = call.number(1), dim = call.number(2);
  std::optional<SmallVector<int64_t>> shape = call.around.shapeOf(call.operands[0].text);
  std::optional<size_t> at = shape && dim ? placeOf(*dim, shape->size()) : std::nullopt;
  if (!shift || !at || (*shape)[*at] <= 0)
    return std::nullopt;
  double size = double((*shape)[*at]), moved = std::fmod(-*shift, size);
  return Argument::of(moved < 0 ? moved + size : moved);
}

/// indexed_first(indices): the order of dimensions in which those with an index come first.
static Value indexedFirst(const Call &call) {
  std::vector<Argument> order;
  for (bool isIndexed : {true, false})
    for (size_t i = 0; i < call.size; ++i)
      if ((i < call.list(0).size() && !call.list(0)[i].isNone()) == isIndexed)
        order.push_back(Argument::of(double(i)));
  return call.isList(0) && call.list(0).size() <= call.size ? Value(Argument::of(std::move(order)))
                                                            : std::nullopt;
}

/// where_read(x, y): y, if the graph has x. Else the exporter merged what computes x into the node.
static Value whereRead(const Call &call) {
  return call.around.isThere(call.operands[0].text) ? Value(call.operands[1]) : std::nullopt;
}

static Function functionOf(StringRef name) {
  return llvm::StringSwitch<Function>(name)
      .Case("len", length)
      .Case("neg", negate)
      .Case("sqrt", squareRoot)
      .Case("add", add)
      .Case("sub", subtract)
      .Case("type", dataType)
      .Case("reduction", reduction)
      .Case("scale", scale)
      .Case("fill", fill)
      .Case("twice", twice)
      .Case("swap", swapped)
      .Case("ends", ends)
      .Case("rest", rest)
      .Case("where_read", whereRead)
      .Case("indexed_first", indexedFirst)
      .Default(nullptr);
}

bool onnx::isTermFunction(StringRef name) { return functionOf(name) != nullptr; }

Value onnx::evaluate(const Term &term, size_t size, const Surroundings &around) {
  if (term.kind == Term::Kind::Literal)
    return term.literal;
  if (term.kind == Term::Kind::Argument) {
    auto found = around.arguments.find(term.name);
    if (found != around.arguments.end())
      return found->second;
    return term.name == kLowest ? Value(Argument{Kind::Text, kLowest.str()}) : std::nullopt;
  }
  if (term.kind != Term::Kind::List && term.kind != Term::Kind::Function)
    return std::nullopt;
  std::vector<Argument> operands;
  for (const Term &part : term.parts) {
    Value value = evaluate(part, size, around);
    if (!value)
      return std::nullopt;
    operands.push_back(*value);
  }
  if (term.kind == Term::Kind::List)
    return Argument::of(std::move(operands));
  return functionOf(term.name)({operands, size, around});
}
