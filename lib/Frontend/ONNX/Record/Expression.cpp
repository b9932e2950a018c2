//===- Expression.cpp - Functions of parameters that were folded ----------===//
#include "lib/Frontend/ONNX/Record/Expression.h"
#include "dialects/nn/NN.h"
#include "dialects/nn/Ops/Constant.h"
#include "lib/Frontend/ONNX/Record/Words.h"
#include "lib/Interpreter/Interpreter.h"
#include "lib/Interpreter/Tensor.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include <cmath>
#include <numeric>
#include <set>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

/// Maximum bytes of operands and results of an op of an expression.
static constexpr int64_t kEvaluationBytes = int64_t(256) << 20;

Numbers Numbers::of(DenseElementsAttr data) {
  interp::Tensor tensor = interp::Tensor::fromAttr(data);
  Numbers numbers;
  numbers.shape.assign(tensor.shape().begin(), tensor.shape().end());
  if (data.getElementType().isBF16())
    numbers.tolerance = 8e-3;
  else if (data.getElementType().isF16())
    numbers.tolerance = 1e-3;
  numbers.values.reserve(tensor.size());
  for (int64_t i = 0; i < tensor.size(); ++i)
    numbers.values.push_back(tensor.number(i));
  return numbers;
}

bool Numbers::isNearlyConstant() const {
  std::set<double> seen;
  for (double value : values)
    if (seen.insert(value).second && seen.size() > 2)
      return false;
  return true;
}

bool Movement::keepsElements() const {
  return kept == shape && llvm::is_sorted(perm) && limits == split &&
         llvm::all_of(starts, [](int64_t start) { return start == 0; }) &&
         llvm::all_of(strides, [](int64_t stride) { return stride == 1; });
}

// ---- which operations give which expressions

bool onnx::isMovement(StringRef op) { return words::is(op, words::Trait::Moves); }

bool onnx::isConversion(StringRef op) { return words::is(op, words::Trait::Converts); }

bool onnx::isMadeByCode(StringRef op) { return words::is(op, words::Trait::Creates); }

bool Expression::movesOnly() const {
  return op == "input" ||
         ((op == "move" || isMovement(op) || op == "convert") && operands.front().movesOnly());
}

bool onnx::agrees(const Expression &expression, StringRef op) {
  if (op.empty() || isMovement(op))
    return true; // the computation before it is not known
  auto isAffine = [](StringRef name) {
    return llvm::is_contained({"add", "sub", "rsub", "mul", "div", "neg"}, name);
  };
  return isAffine(expression.op) ? isAffine(op) : op == expression.op;
}

Expression onnx::affine(Expression operand, double scale, double shift) {
  if (scale == -1 && shift != 0)
    return Expression::of("sub", Expression::ofNumber(shift), std::move(operand));
  if (scale == -1)
    operand = Expression::of("neg", std::move(operand));
  else if (scale != 1)
    operand = Expression::of("mul", Expression::ofNumber(scale), std::move(operand));
  if (shift == 0)
    return operand;
  return Expression::of(shift < 0 ? "sub" : "add", std::move(operand),
                        Expression::ofNumber(std::abs(shift)));
}

// ---- values

/// Evaluates an expression by the ops that the importer builds for it.
std::optional<Numbers> onnx::evaluate(MLIRContext &context, const Expression &expression,
                                      ArrayRef<const Numbers *> inputs) {
  context.loadDialect<nn::NNDialect>();
  Block block;
  OpBuilder builder(&context);
  builder.setInsertionPointToEnd(&block);
  Location loc = builder.getUnknownLoc();
  SmallVector<Value> values;
  double tolerance = 2e-6;
  const Numbers unread{{}, {0}};
  for (const Numbers *input : inputs) {
    input = input ? input : &unread;
    auto type = RankedTensorType::get(input->shape, builder.getF64Type());
    values.push_back(nn::ConstantOp::create(
        builder, loc, DenseElementsAttr::get(type, ArrayRef<double>(input->values))));
    tolerance = std::max(tolerance, input->tolerance);
  }
  ScopedDiagnosticHandler silent(&context, [](Diagnostic &) { return success(); });
  Value result = buildExpression(builder, loc, expression, values);
  if (!result)
    return std::nullopt;
  llvm::DenseMap<Value, DenseElementsAttr> known;
  for (Operation &op : block) {
    if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
      known[constant] = dyn_cast<DenseElementsAttr>(constant.getValue());
      continue;
    }
    SmallVector<ElementsAttr> operands;
    for (Value operand : op.getOperands())
      operands.push_back(known.lookup(operand));
    auto results = interp::interpretConstant(&op, operands, kEvaluationBytes);
    if (mlir::failed(results))
      return std::nullopt;
    known[op.getResult(0)] = results->front();
  }
  Numbers numbers = Numbers::of(known.lookup(result));
  numbers.tolerance = tolerance;
  if (!llvm::all_of(numbers.values, [](double value) { return std::isfinite(value); }))
    return std::nullopt;
  return numbers;
}

bool onnx::isClose(const Numbers &numbers, const Numbers &constant) {
  if (numbers.shape != constant.shape)
    return false;
  double most = 0;
  for (double value : constant.values)
    most = std::max(most, std::abs(value));
  double tolerance = std::max(numbers.tolerance, constant.tolerance) * most;
  return llvm::all_of(llvm::zip(numbers.values, constant.values), [&](auto pair) {
    return std::abs(std::get<0>(pair) - std::get<1>(pair)) <= tolerance;
  });
}

// ---- solutions

/// Returns the inverse of a function of one operand; null if it has none.
static double (*inverseOf(StringRef op))(double) {
  static const llvm::StringMap<double (*)(double)> inverses = {
      {"exp", [](double y) { return std::log(y); }},
      {"log", [](double y) { return std::exp(y); }},
      {"sigmoid", [](double y) { return std::log(y / (1 - y)); }},
      {"softplus", [](double y) { return y > 20 ? y : std::log(std::expm1(y)); }},
      {"log_sigmoid", [](double y) { return y - std::log(-std::expm1(y)); }},
      {"tanh", [](double y) { return std::atanh(y); }},
      {"neg", [](double y) { return -y; }},
      {"sqrt", [](double y) { return y * y; }},
      {"rsqrt", [](double y) { return 1 / (y * y); }},
      {"reciprocal", [](double y) { return 1 / y; }},
      {"convert", [](double y) { return y; }}};
  return inverses.lookup(op);
}

static bool reads(const Expression &expression, size_t input) {
  return (expression.op == "input" && expression.input == input) ||
         llvm::any_of(expression.operands,
                      [&](const Expression &operand) { return reads(operand, input); });
}

/// Solves x op other = y, or other op x = y if `isRight`.
static double solveBinary(StringRef op, double y, double other, bool isRight) {
  if (op == "add")
    return y - other;
  if (op == "sub")
    return isRight ? other - y : y + other;
  if (op == "mul")
    return y / other;
  return isRight ? other / y : y * other; // div
}

/// Removes the dimensions that an index inserts, if it does nothing else.
static bool removeNew(ArrayRef<IndexItem> items, SmallVectorImpl<int64_t> &shape) {
  SmallVector<int64_t> kept;
  size_t dim = 0, named = llvm::count_if(items, [](const IndexItem &item) {
                    return item.kind != IndexItem::Kind::Rest;
                  });
  if (named > shape.size())
    return false;
  for (const IndexItem &item : items) {
    if (item.kind == IndexItem::Kind::Rest) {
      for (size_t rest = shape.size() - named; rest > 0; --rest)
        kept.push_back(shape[dim++]);
    } else if (item.kind == IndexItem::Kind::New) {
      ++dim;
    } else if (item.kind == IndexItem::Kind::Range && !item.start && !item.end && !item.step) {
      kept.push_back(shape[dim++]);
    } else {
      return false;
    }
  }
  kept.append(shape.begin() + dim, shape.end());
  shape = kept;
  return true;
}

/// A number is taken for a bound that it differs from by less: it may be rounded.
static constexpr double kNear = 1e-5;

static std::optional<Solution> solveFor(MLIRContext &context, const Expression &expression,
                                        ArrayRef<const Numbers *> inputs, size_t unknown,
                                        Numbers constant) {
  auto isFinite = [](double value) { return std::isfinite(value); };
  if (!llvm::all_of(constant.values, isFinite))
    return std::nullopt;
  if (expression.op == "input")
    return Solution{std::move(constant)};
  auto inner = [&](size_t operand) {
    return solveFor(context, expression.operands[operand], inputs, unknown, std::move(constant));
  };
  if (auto inverse = inverseOf(expression.op)) {
    for (double &value : constant.values)
      value = inverse(value);
    return inner(0);
  }
  if (expression.op == "clamp") { // a bound has no unique operand
    for (double bound : expression.numbers)
      for (double value : constant.values)
        if (std::isfinite(bound) &&
            std::abs(value - bound) <= kNear * std::max(1.0, std::abs(bound)))
          return std::nullopt;
    return inner(0);
  }
  if (expression.op == "transpose" && constant.shape.size() == 2 &&
      std::abs(expression.numbers[0] - expression.numbers[1]) == 1) {
    int64_t rows = constant.shape[0], columns = constant.shape[1];
    std::vector<double> turned(constant.values.size());
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t k = 0; k < columns; ++k)
        turned[k * rows + i] = constant.values[i * columns + k];
    constant.values = std::move(turned);
    constant.shape = {columns, rows};
    return inner(0);
  }
  if (expression.op == "reshape") { // a vector, unless the constant shows more dimensions
    llvm::erase(constant.shape, 1);
    return inner(0);
  }
  if (expression.op == "unsqueeze") {
    int64_t rank = constant.shape.size(), dim = int64_t(expression.numbers[0]);
    dim += dim < 0 ? rank : 0;
    if (dim < 0 || dim >= rank)
      return std::nullopt;
    constant.shape.erase(constant.shape.begin() + dim);
    return inner(0);
  }
  if (expression.op == "index") {
    const std::vector<IndexItem> &items = expression.items;
    if (items.size() == 1 && items[0].kind == IndexItem::Kind::At && *items[0].start >= 0 &&
        expression.operands[0].op == "input")
      return Solution{std::move(constant), *items[0].start};
    if (!removeNew(items, constant.shape))
      return std::nullopt;
    return inner(0);
  }
  if (llvm::is_contained({"add", "sub", "mul", "div"}, expression.op)) {
    bool isRight = reads(expression.operands[1], unknown);
    const Expression &side = expression.operands[!isRight];
    if (reads(side, unknown))
      return std::nullopt;
    Numbers known;
    if (side.isNumber()) {
      known.values = side.numbers;
    } else {
      std::optional<Numbers> value = evaluate(context, side, inputs);
      if (!value || (value->size() != 1 && value->shape != constant.shape))
        return std::nullopt;
      known = *value;
    }
    for (auto [i, value] : llvm::enumerate(constant.values))
      value = solveBinary(expression.op, value, known.values[known.size() == 1 ? 0 : i], isRight);
    return inner(isRight);
  }
  return std::nullopt;
}

std::optional<Solution> onnx::solve(MLIRContext &context, const Expression &expression,
                                    ArrayRef<const Numbers *> inputs, size_t unknown,
                                    const Numbers &constant) {
  std::optional<Solution> solution = solveFor(context, expression, inputs, unknown, constant);
  if (!solution || solution->part >= 0)
    return solution;
  SmallVector<const Numbers *> all(inputs);
  all[unknown] = &solution->numbers;
  std::optional<Numbers> again = evaluate(context, expression, all);
  if (!again || !isClose(*again, constant))
    return std::nullopt;
  return solution;
}

// ---- text

static std::string textOf(double value) {
  std::string text = llvm::formatv("{0:f6}", value).str();
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.')
    text.pop_back();
  return text;
}

std::string Expression::text(ArrayRef<std::string> names) const {
  if (op == "input")
    return names[input];
  if (isNumber())
    return textOf(numbers[0]);
  std::string first = operands[0].text(names);
  if (op == "move") {
    bool isPart = false;
    int64_t count = 1;
    for (auto [size, start, limit] : llvm::zip(movement.split, movement.starts, movement.limits)) {
      isPart |= limit - start < size;
      count *= size;
    }
    return isPart || std::accumulate(movement.shape.begin(), movement.shape.end(), int64_t(1),
                                     std::multiplies<int64_t>()) != count
               ? "a part of " + first
           : !llvm::is_sorted(movement.perm) ? "the transposed " + first
                                             : first;
  }
  if (op == "convert")
    return first;
  if (operands.size() == 2) {
    auto grouped = [&](const Expression &operand, std::string text) {
      bool isSum = llvm::is_contained({"add", "sub"}, operand.op);
      return isSum && (op != "add" || &operand == &operands[1]) ? "(" + text + ")" : text;
    };
    StringRef sign = op == "add" ? " + " : op == "sub" ? " - " : op == "mul" ? " * " : " / ";
    if (op == "matmul" || op == "pow")
      sign = op == "pow" ? " ** " : " @ ";
    return grouped(operands[0], first) + sign.str() + grouped(operands[1], operands[1].text(names));
  }
  if (op == "neg")
    return (operands[0].operands.size() == 2 ? "-(" : "-") + first +
           (operands[0].operands.size() == 2 ? ")" : "");
  return (isMovement(op) ? "a view" : op) + (isMovement(op) ? " of " + first : "(" + first + ")");
}

std::string Expression::key(ArrayRef<size_t> inputs) const {
  std::string text = op + (keeps ? "!" : "") + (op == "input" ? std::to_string(inputs[input]) : "");
  for (double number : numbers)
    text += llvm::formatv(":{0:e17}", number);
  for (const IndexItem &item : items) {
    text += ";" + std::to_string(int(item.kind));
    for (std::optional<int64_t> place : {item.start, item.end, item.step})
      text += place ? std::to_string(*place) + "," : ",";
  }
  for (ArrayRef<int64_t> list :
       {ArrayRef<int64_t>(movement.split), ArrayRef<int64_t>(movement.starts),
        ArrayRef<int64_t>(movement.limits), ArrayRef<int64_t>(movement.strides),
        ArrayRef<int64_t>(movement.perm), ArrayRef<int64_t>(movement.kept),
        ArrayRef<int64_t>(movement.shape)}) {
    text += list.empty() ? "" : "|";
    for (int64_t number : list)
      text += std::to_string(number) + ",";
  }
  text += "(";
  for (const Expression &operand : operands)
    text += operand.key(inputs) + " ";
  return text + ")";
}
