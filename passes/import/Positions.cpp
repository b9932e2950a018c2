//===- Positions.cpp - Values that depend on positions alone --------------===//
#include "passes/import/Positions.h"
#include "dialects/nn/Ops/Cast.h"
#include "dialects/nn/Ops/Compare.h"
#include "dialects/nn/Ops/Constant.h"
#include "dialects/nn/Ops/Data.h"
#include "dialects/nn/Ops/Elementwise.h"
#include "lib/Folding/Fold.h"
#include "passes/import/Matchers.h"
#include <cmath>
#include <numeric>

using namespace mlir;
using namespace shale;
using namespace shale::recover;

static constexpr int64_t kMostEntries = int64_t(1) << 20;
/// Factors and offsets of lines, and their elements, are at most this in absolute value.
static constexpr int64_t kMostNumber = int64_t(1) << 53;
static constexpr int kMostDepth = 64;
/// Maximum bytes of all tables, which stay in memory.
static constexpr int64_t kMostBytes = int64_t(256) << 20;

namespace {
struct Bounds {
  int64_t low, high;
};
} // namespace

/// Returns the range of offset + factors * indices over a shape; none if the tensor is empty or a
/// number exceeds kMostNumber.
static std::optional<Bounds> rangeOf(ArrayRef<int64_t> factors, int64_t offset,
                                     ArrayRef<int64_t> shape) {
  Bounds range{offset, offset};
  for (auto [factor, size] : llvm::zip_equal(factors, shape)) {
    int64_t reach;
    if (size < 1 || llvm::MulOverflow(factor, size - 1, reach) || std::abs(reach) > kMostNumber)
      return std::nullopt;
    (reach < 0 ? range.low : range.high) += reach;
    if (range.low < -kMostNumber || range.high > kMostNumber)
      return std::nullopt;
  }
  return range;
}

/// Whether all integers in the range are numbers of the type.
static bool isExact(Bounds range, Type element) {
  int64_t most = 0;
  if (auto type = dyn_cast<FloatType>(element))
    most = int64_t(1) << std::min(type.getFPMantissaWidth(), 53u);
  else if (auto type = dyn_cast<IntegerType>(element); type && type.getWidth() > 1)
    most = (int64_t(1) << (std::min(type.getWidth(), 54u) - 1)) - 1;
  return range.low >= (element.isUnsignedInteger() ? 0 : -most) && range.high <= most;
}

/// Returns the elements of a constant if all are integers of at most kMostNumber.
static std::optional<SmallVector<int64_t>> integersOf(DenseElementsAttr attr) {
  SmallVector<int64_t> numbers;
  if (isa<FloatType>(attr.getElementType())) {
    for (APFloat number : attr.getValues<APFloat>()) {
      bool inexact;
      number.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &inexact);
      double value = number.convertToDouble();
      if (!(std::abs(value) <= double(kMostNumber)) || value != std::floor(value))
        return std::nullopt;
      numbers.push_back(value);
    }
  } else {
    for (const APInt &number : attr.getValues<APInt>()) {
      if (!number.isSignedIntN(54) || attr.getElementType().isInteger(1))
        return std::nullopt;
      numbers.push_back(number.getSExtValue());
    }
  }
  return numbers;
}

static DenseElementsAttr flat(DenseElementsAttr attr) {
  return attr.reshape(RankedTensorType::get({attr.getNumElements()}, attr.getElementType()));
}

static DenseElementsAttr repeated(DenseElementsAttr one, int64_t count) {
  return DenseElementsAttr::get(RankedTensorType::get({count}, one.getElementType()),
                                *one.value_begin<Attribute>());
}

PositionForms::Known PositionForms::ofConstant(DenseElementsAttr attr) {
  if (!attr.isSplat() && attr.getNumElements() <= kMostEntries)
    attr = nn::reduceRepeated(attr);
  ArrayRef<int64_t> shape = attr.getType().getShape();
  Known known;
  SmallVector<int64_t> direction(shape.size(), 0);
  if (attr.isSplat() && attr.getNumElements() > 0) {
    known.form = {direction, 0, repeated(attr, 1)};
    return known;
  }
  int64_t dim = -1;
  for (auto [i, size] : llvm::enumerate(shape))
    if (size != 1) {
      if (dim >= 0)
        return {};
      dim = i;
    }
  if (dim < 0 || shape[dim] < 2 || shape[dim] > kMostEntries)
    return {};
  if (std::optional<SmallVector<int64_t>> numbers = integersOf(attr)) {
    int64_t step = (*numbers)[1] - numbers->front();
    bool even = true;
    for (size_t i = 2; i < numbers->size() && even; ++i)
      even = (*numbers)[i] - (*numbers)[i - 1] == step;
    if (even) {
      direction[dim] = step;
      known.line = {direction, numbers->front()};
      return known;
    }
  }
  direction[dim] = 1;
  known.form = {direction, 0, flat(attr)};
  return known;
}

DenseElementsAttr PositionForms::progression(int64_t scale, int64_t offset, int64_t low,
                                             int64_t count, Type element) {
  DenseElementsAttr &known = progressions[{
      scale, offset, low, count, reinterpret_cast<int64_t>(element.getAsOpaquePointer())}];
  if (known)
    return known;
  auto type = RankedTensorType::get({count}, element);
  bytes += nn::tensorBytes(type);
  if (auto real = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> numbers;
    for (int64_t t = low; t < low + count; ++t) {
      APFloat number(double(scale * t + offset));
      bool inexact;
      number.convert(real.getFloatSemantics(), APFloat::rmNearestTiesToEven, &inexact);
      numbers.push_back(number);
    }
    return known = DenseElementsAttr::get(type, numbers);
  }
  SmallVector<APInt> numbers;
  for (int64_t t = low; t < low + count; ++t)
    numbers.push_back(APInt(64, scale * t + offset, /*isSigned=*/true)
                          .sextOrTrunc(element.getIntOrFloatBitWidth()));
  return known = DenseElementsAttr::get(type, numbers);
}

std::optional<PositionForm> PositionForms::toForm(const Line &line, RankedTensorType type) {
  PositionForm form;
  int64_t scale = 0;
  for (int64_t factor : line.factors)
    scale = std::gcd(scale, factor);
  for (int64_t factor : llvm::reverse(line.factors))
    if (factor != 0)
      scale = factor < 0 ? -std::abs(scale) : std::abs(scale);
  for (int64_t factor : line.factors)
    form.direction.push_back(scale == 0 ? 0 : factor / scale);
  std::optional<Bounds> range = rangeOf(form.direction, 0, type.getShape());
  if (!range || range->high - range->low >= kMostEntries)
    return std::nullopt;
  form.low = range->low;
  form.table = progression(scale, line.offset, range->low, range->high - range->low + 1,
                           type.getElementType());
  return form;
}

std::optional<PositionForm> PositionForms::toForm(const Known &known, RankedTensorType type) {
  return known.line ? toForm(*known.line, type) : known.form;
}

/// Returns the known form of an op that moves elements. A broadcast repeats the input, a reshape
/// adds or removes dimensions of size 1, a transpose or a slice changes the indices of a line.
PositionForms::Known PositionForms::moved(Operation *op, const Known &input) {
  ArrayRef<int64_t> from = tensor(op->getOperand(0)).getShape();
  ArrayRef<int64_t> to = tensor(op->getResult(0)).getShape();
  Known known = input;
  ArrayRef<int64_t> old = input.line ? input.line->factors : input.form->direction;
  SmallVector<int64_t> factors(to.size(), 0);
  if (auto broadcast = dyn_cast<nn::BroadcastOp>(op)) {
    for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
      factors[dim] = from[i] == 1 ? 0 : old[i];
  } else if (isa<nn::ReshapeOp>(op)) {
    size_t i = 0;
    for (size_t j = 0; j < to.size(); ++j) {
      if (to[j] == 1)
        continue;
      while (i < from.size() && from[i] == 1)
        ++i;
      if (i == from.size() || from[i] != to[j])
        return {};
      factors[j] = old[i++];
    }
  } else if (auto transpose = dyn_cast<nn::TransposeOp>(op)) {
    if (!input.line && !input.form->isConstant())
      return {};
    for (auto [j, dim] : llvm::enumerate(transpose.getPerm()))
      factors[j] = old[dim];
  } else if (auto slice = dyn_cast<nn::SliceOp>(op)) {
    if (!input.line && !input.form->isConstant())
      return {};
    for (auto [j, size] : llvm::enumerate(to)) {
      factors[j] = size == 1 ? 0 : old[j] * slice.getStrides()[j];
      if (known.line)
        known.line->offset += old[j] * slice.getStarts()[j];
    }
  } else {
    return {};
  }
  (known.line ? known.line->factors : known.form->direction) = factors;
  return known;
}

/// Returns lhs + sign * rhs if it is exact in the type of `result`.
std::optional<PositionForms::Line> PositionForms::sum(Value result, const Line &lhs,
                                                      const Line &rhs, int64_t sign) {
  Line line{lhs.factors, lhs.offset + sign * rhs.offset};
  for (auto [factor, other] : llvm::zip_equal(line.factors, rhs.factors))
    factor += sign * other;
  std::optional<Bounds> range = rangeOf(line.factors, line.offset, tensor(result).getShape());
  if (!range || !isExact(*range, tensor(result).getElementType()))
    return std::nullopt;
  return line;
}

/// Compares two lines: the difference with zero, both as i64.
std::optional<PositionForm> PositionForms::compared(Operation *op, const Line &lhs,
                                                    const Line &rhs) {
  Line line{lhs.factors, lhs.offset - rhs.offset};
  for (auto [factor, other] : llvm::zip_equal(line.factors, rhs.factors))
    factor -= other;
  RankedTensorType shape = tensor(op->getOperand(0));
  if (!rangeOf(line.factors, line.offset, shape.getShape()))
    return std::nullopt;
  Type wide = IntegerType::get(op->getContext(), 64);
  std::optional<PositionForm> form = toForm(line, shape.clone(wide));
  if (!form)
    return std::nullopt;
  int64_t count = form->table.getNumElements();
  form->table = evaluate(op, {form->table, progression(0, 0, 0, count, wide)});
  if (!form->table)
    return std::nullopt;
  return form;
}

/// Returns the result of an elementwise op on tables; null if it cannot be computed.
DenseElementsAttr PositionForms::evaluate(Operation *op, ArrayRef<DenseElementsAttr> operands) {
  std::vector<const void *> key{op->getName().getAsOpaquePointer(),
                                op->getPropertiesAsAttribute().getAsOpaquePointer(),
                                tensor(op->getResult(0)).getElementType().getAsOpaquePointer()};
  for (DenseElementsAttr operand : operands)
    key.push_back(operand.getAsOpaquePointer());
  DenseElementsAttr &known = results[key];
  if (known)
    return known;
  Block block;
  SmallVector<Value> arguments;
  for (DenseElementsAttr operand : operands)
    arguments.push_back(block.addArgument(operand.getType(), op->getLoc()));
  auto type = RankedTensorType::get({operands.front().getNumElements()},
                                    tensor(op->getResult(0)).getElementType());
  OperationState state(op->getLoc(), op->getName(), arguments, TypeRange{type}, op->getAttrs());
  Operation *resized = Operation::create(state);
  block.push_back(resized);
  bytes += nn::tensorBytes(type);
  return known = folding::fold(resized, operands);
}

std::optional<PositionForm> PositionForms::elementwise(Operation *op, ArrayRef<Known> operands) {
  SmallVector<PositionForm> forms;
  const PositionForm *varying = nullptr;
  for (auto [known, value] : llvm::zip_equal(operands, op->getOperands())) {
    std::optional<PositionForm> form = toForm(known, tensor(value));
    if (!form)
      return std::nullopt;
    forms.push_back(*form);
  }
  for (const PositionForm &form : forms) {
    if (form.isConstant())
      continue;
    if (varying && (varying->direction != form.direction || varying->low != form.low))
      return std::nullopt;
    varying = &form;
  }
  if (forms.empty())
    return std::nullopt;
  PositionForm result = varying ? *varying : forms.front();
  SmallVector<DenseElementsAttr> tables;
  for (const PositionForm &form : forms)
    tables.push_back(form.isConstant() ? repeated(form.table, result.table.getNumElements())
                                       : form.table);
  result.table = evaluate(op, tables);
  if (!result.table)
    return std::nullopt;
  if (result.table.isSplat())
    result = {SmallVector<int64_t>(result.direction.size(), 0), 0, repeated(result.table, 1)};
  return result;
}

PositionForms::Known PositionForms::compute(Operation *op, int depth) {
  Known known;
  if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
    auto attr = dyn_cast<DenseElementsAttr>(constant.getValue());
    return attr ? ofConstant(attr) : known;
  }
  if (auto iota = dyn_cast<nn::IotaOp>(op)) {
    Line line{SmallVector<int64_t>(tensor(iota).getRank(), 0)};
    line.factors[iota.getDim()] = tensor(iota).getDimSize(iota.getDim()) == 1 ? 0 : 1;
    std::optional<Bounds> range = rangeOf(line.factors, 0, tensor(iota).getShape());
    if (range && isExact(*range, tensor(iota).getElementType()))
      known.line = line;
    return known;
  }
  bool isElementwise = isa<ElementwiseOpInterface>(op);
  if (!isElementwise && !isa<nn::BroadcastOp, nn::ReshapeOp, nn::TransposeOp, nn::SliceOp>(op))
    return known;
  SmallVector<Known> operands;
  for (Value operand : op->getOperands()) {
    operands.push_back(find(operand, depth + 1));
    if (!operands.back().line && !operands.back().form)
      return known;
  }
  if (!isElementwise)
    return moved(op, operands.front());
  auto line = [&](size_t i) -> std::optional<Line> {
    const Known &operand = operands[i];
    if (operand.line || !operand.form->isConstant())
      return operand.line;
    std::optional<SmallVector<int64_t>> number = integersOf(operand.form->table);
    return number ? std::optional(Line{operand.form->direction, number->front()}) : std::nullopt;
  };
  bool anyLine = llvm::any_of(operands, [](const Known &operand) { return bool(operand.line); });
  if (anyLine && isa<nn::CastOp>(op)) {
    Line zero{SmallVector<int64_t>(operands[0].line->factors.size(), 0)};
    known.line = sum(op->getResult(0), *operands[0].line, zero, 1);
  } else if (anyLine && isa<nn::AddOp, nn::SubOp>(op) && line(0) && line(1)) {
    known.line = sum(op->getResult(0), *line(0), *line(1), isa<nn::AddOp>(op) ? 1 : -1);
  } else if (anyLine && isa<nn::CompareOp>(op) && line(0) && line(1)) {
    known.form = compared(op, *line(0), *line(1));
    return known;
  }
  if (!known.line)
    known.form = elementwise(op, operands);
  return known;
}

PositionForms::Known PositionForms::find(Value value, int depth) {
  if (auto it = seen.find(value); it != seen.end())
    return it->second;
  Operation *op = value.getDefiningOp();
  Known known;
  if (op && op->getNumResults() == 1 && depth < kMostDepth && bytes <= kMostBytes)
    known = compute(op, depth);
  return seen[value] = known;
}

std::optional<PositionForm> PositionForms::of(Value value) {
  seen.clear();
  return toForm(find(value, 0), tensor(value));
}
