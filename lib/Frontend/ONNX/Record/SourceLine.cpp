//===- SourceLine.cpp - Functions of parameters in the model's source -----===//
#include "lib/Frontend/ONNX/Record/Expression.h"
#include "lib/Frontend/ONNX/Record/Python.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include <cmath>
#include <limits>

using namespace shale;
using namespace shale::onnx;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;
using Kind = PyExpr::Kind;
using ParameterOf = llvm::function_ref<int(StringRef)>;

/// Lines of more expressions are not searched.
static constexpr size_t kMaxPlaces = 256;

/// Returns the kind of the aten operation that a function, method or operator of PyTorch becomes;
/// its own name if it is the same.
static StringRef kindOf(StringRef name) {
  return llvm::StringSwitch<StringRef>(name)
      .Cases({"+", "__add__", "add_"}, "add")
      .Cases({"-", "subtract", "rsub"}, "sub")
      .Cases({"*", "multiply", "mul_"}, "mul")
      .Cases({"/", "divide", "true_divide"}, "div")
      .Case("**", "pow")
      .Cases({"@", "mm"}, "matmul")
      .Cases({"clip", "clamp_min", "clamp_max"}, "clamp")
      .Cases({"negative"}, "neg")
      .Case("logsigmoid", "log_sigmoid")
      .Case("_softmax", "softmax")
      .Cases({"view", "_unsafe_view", "view_as", "flatten"}, "reshape")
      .Cases({"t", "T", "mT", "numpy_T", "swapaxes"}, "transpose")
      .Cases({"float", "to", "_to_copy", "type_as", "contiguous", "clone", "double", "cuda", "cpu",
              "convert_element_type_default"},
             "convert")
      .Default(name);
}

/// Returns the name of what a call calls: "exp" of torch.exp(x) and of x.exp(); empty if it is no
/// name.
static StringRef calledName(const PyExpr &call) {
  const PyExpr &callee = call.parts.front();
  return callee.kind == Kind::Name || callee.kind == Kind::Attribute ? StringRef(callee.text) : "";
}

/// Returns "lin.weight" for self.lin.weight; empty for other expressions.
static std::string pathOf(const PyExpr &expression) {
  if (expression.kind != Kind::Attribute)
    return "";
  const PyExpr &object = expression.parts.front();
  if (object.kind == Kind::Name)
    return expression.text;
  std::string outer = pathOf(object);
  return outer.empty() ? "" : outer + "." + expression.text;
}

/// Whether a call is one of a function of a module: torch.exp(x), F.softplus(x), math.exp(x).
static bool isOfModule(const PyExpr &callee) {
  const PyExpr *root = &callee;
  while (root->kind == Kind::Attribute)
    root = &root->parts.front();
  return root->kind == Kind::Name &&
         llvm::is_contained({"torch", "F", "nn", "functional", "math", "np"}, root->text);
}

namespace {

/// Translates an expression of Python to a function of parameters.
class Translator {
public:
  Translator(ParameterOf parameterOf, Reading &reading)
      : parameterOf(parameterOf), reading(reading) {}

  std::optional<Expression> translate(const PyExpr &python);

private:
  std::optional<Expression> translateCall(const PyExpr &call);
  std::optional<Expression> translateIndex(const PyExpr &python);
  std::optional<Expression> combine(StringRef op, const PyExpr &lhs, const PyExpr &rhs);

  ParameterOf parameterOf;
  Reading &reading;
};

/// The arguments of a call after the tensor that it is applied to.
class Arguments {
public:
  explicit Arguments(const PyExpr &call) {
    const PyExpr &callee = call.parts.front();
    ArrayRef<PyExpr> arguments = ArrayRef(call.parts).drop_front();
    ArrayRef<std::string> keywords = call.keywords;
    if (callee.kind == Kind::Attribute && !isOfModule(callee)) {
      tensor = &callee.parts.front();
    } else if (!arguments.empty() && (keywords[0].empty() || keywords[0] == "input")) {
      tensor = &arguments.front();
      arguments = arguments.drop_front(), keywords = keywords.drop_front();
    }
    for (auto [argument, keyword] : llvm::zip(arguments, keywords))
      if (keyword.empty())
        positional.push_back(&argument);
      else
        named.push_back({keyword, &argument});
  }

  const PyExpr *find(size_t place, StringRef name) const {
    for (auto [keyword, argument] : named)
      if (keyword == name)
        return argument;
    return place < positional.size() ? positional[place] : nullptr;
  }
  size_t size() const { return positional.size() + named.size(); }

  const PyExpr *tensor = nullptr;
  SmallVector<const PyExpr *> positional;
  SmallVector<std::pair<StringRef, const PyExpr *>> named;
};

} // namespace

/// Appends a number, or the numbers of a list; returns whether it is nothing else.
static bool appendNumbers(const PyExpr &expression, std::vector<double> &numbers) {
  if (expression.kind == Kind::Number) {
    numbers.push_back(expression.number);
    return true;
  }
  return expression.kind == Kind::List && llvm::all_of(expression.parts, [&](const PyExpr &part) {
           return part.kind == Kind::Number && appendNumbers(part, numbers);
         });
}

static bool isWhole(double number) {
  return number == std::floor(number) && std::abs(number) < 1e15;
}

std::optional<Expression> Translator::combine(StringRef op, const PyExpr &lhs, const PyExpr &rhs) {
  std::optional<Expression> left = translate(lhs), right = left ? translate(rhs) : std::nullopt;
  if (!right)
    return std::nullopt;
  if (left->isNumber() && right->isNumber()) {
    double a = left->numbers[0], b = right->numbers[0];
    double value = op == "add"   ? a + b
                   : op == "sub" ? a - b
                   : op == "mul" ? a * b
                   : op == "div" ? a / b
                   : op == "pow" ? std::pow(a, b)
                                 : NAN;
    if (!std::isfinite(value))
      return std::nullopt;
    return Expression::ofNumber(value);
  }
  if (op == "matmul" && (left->isNumber() || right->isNumber()))
    return std::nullopt;
  return Expression::of(op, std::move(*left), std::move(*right));
}

std::optional<Expression> Translator::translateIndex(const PyExpr &python) {
  std::optional<Expression> object = translate(python.parts.front());
  if (!object || object->isNumber())
    return std::nullopt;
  Expression result = Expression::of("index", std::move(*object));
  auto place = [](const PyExpr &part, std::optional<int64_t> &at) {
    if (part.kind == Kind::Other && part.text.empty() && part.parts.empty())
      return true;
    if (part.kind == Kind::Number && isWhole(part.number))
      at = int64_t(part.number);
    return at.has_value() || part.isName("None");
  };
  for (const PyExpr &part : llvm::drop_begin(python.parts)) {
    IndexItem item{IndexItem::Kind::At};
    if (part.isName("None"))
      item.kind = IndexItem::Kind::New;
    else if (part.text == "...")
      item.kind = IndexItem::Kind::Rest;
    else if (part.kind == Kind::Slice && place(part.parts[0], item.start) &&
             place(part.parts[1], item.end) && place(part.parts[2], item.step))
      item.kind = IndexItem::Kind::Range;
    else if (part.kind != Kind::Number || !place(part, item.start))
      return std::nullopt;
    result.items.push_back(item);
  }
  return result;
}

/// Returns the value of math.log(100.0) and the like; none for other calls.
static std::optional<double> constantOf(const PyExpr &call) {
  if (call.kind == Kind::Number)
    return call.number;
  if (call.kind == Kind::Attribute && call.parts[0].isName("math"))
    return call.text == "pi" ? std::optional(M_PI) : std::nullopt;
  if (call.kind != Kind::Call || call.parts.size() != 2 || call.parts[0].kind != Kind::Attribute ||
      !call.parts[0].parts[0].isName("math"))
    return std::nullopt;
  std::optional<double> x = constantOf(call.parts[1]);
  StringRef name = call.parts[0].text;
  double y = !x               ? NAN
             : name == "log"  ? std::log(*x)
             : name == "exp"  ? std::exp(*x)
             : name == "sqrt" ? std::sqrt(*x)
                              : NAN;
  return std::isfinite(y) ? std::optional(y) : std::nullopt;
}

std::optional<Expression> Translator::translateCall(const PyExpr &call) {
  if (std::optional<double> number = constantOf(call))
    return Expression::ofNumber(*number);
  StringRef op = kindOf(calledName(call));
  Arguments arguments(call);
  if (op.empty() || !arguments.tensor)
    return std::nullopt;
  // An argument of another name, such as `alpha` or `axis`, may change the function.
  if (op != "convert" && llvm::any_of(arguments.named, [](auto &argument) {
        return !llvm::is_contained({"dim", "keepdim", "min", "max", "other"}, argument.first);
      }))
    return std::nullopt;
  const PyExpr *other = arguments.find(0, "other");
  if (llvm::is_contained({"add", "sub", "mul", "div", "pow", "matmul"}, op))
    return other && arguments.size() == 1 ? combine(op, *arguments.tensor, *other) : std::nullopt;
  std::optional<Expression> tensor = translate(*arguments.tensor);
  if (!tensor || tensor->isNumber())
    return std::nullopt;
  std::vector<double> numbers;
  bool isPlain = llvm::all_of(arguments.positional, [&](const PyExpr *argument) {
    return appendNumbers(*argument, numbers);
  });
  if (op == "convert")
    return Expression::of(op, std::move(*tensor));
  if (isUnary(op))
    return arguments.size() == 0 ? std::optional(Expression::of(op, std::move(*tensor)))
                                 : std::nullopt;
  if (op == "clamp") {
    StringRef name = calledName(call);
    std::vector<double> bounds = {-std::numeric_limits<double>::infinity(),
                                  std::numeric_limits<double>::infinity()};
    for (int i : {0, 1}) {
      bool isOnly = name == (i ? "clamp_max" : "clamp_min");
      const PyExpr *bound = name == (i ? "clamp_min" : "clamp_max")
                                ? nullptr
                                : arguments.find(isOnly ? 0 : i, i ? "max" : "min");
      if (bound && !bound->isName("None")) {
        std::optional<double> number = constantOf(*bound);
        if (!number)
          return std::nullopt;
        bounds[i] = *number;
      }
    }
    return Expression::of(op, std::move(*tensor), bounds);
  }
  if (!isPlain)
    return std::nullopt;
  if (const PyExpr *dim = arguments.find(numbers.size(), "dim"); dim && numbers.empty())
    if (!appendNumbers(*dim, numbers))
      return std::nullopt;
  if (!llvm::all_of(numbers, isWhole))
    return std::nullopt;
  if (op == "sum" || op == "mean") {
    const PyExpr *keeps = arguments.find(1, "keepdim");
    Expression result = Expression::of(op, std::move(*tensor), numbers);
    result.keeps = keeps && keeps->isName("True");
    return keeps && !result.keeps && !keeps->isName("False") ? std::nullopt : std::optional(result);
  }
  if (op == "transpose" && arguments.size() == 0)
    numbers = {0, 1};
  size_t wanted = op == "transpose" ? 2 : op == "softmax" || op == "unsqueeze" ? 1 : numbers.size();
  if (!llvm::is_contained(
          {"softmax", "unsqueeze", "squeeze", "transpose", "permute", "reshape", "expand"}, op) ||
      numbers.size() != wanted || (op == "squeeze" && wanted > 1) ||
      llvm::is_contained({"view_as", "flatten"}, calledName(call)))
    return std::nullopt;
  return Expression::of(op, std::move(*tensor), numbers);
}

std::optional<Expression> Translator::translate(const PyExpr &python) {
  switch (python.kind) {
  case Kind::Number:
    return Expression::ofNumber(python.number);
  case Kind::Attribute: {
    if (int parameter = parameterOf(pathOf(python)); parameter >= 0) {
      auto known = llvm::find(reading.parameters, size_t(parameter));
      size_t input = known - reading.parameters.begin();
      if (known == reading.parameters.end())
        reading.parameters.push_back(parameter);
      return Expression::ofInput(input);
    }
    if (std::optional<double> number = constantOf(python))
      return Expression::ofNumber(*number);
    if (!llvm::is_contained({"T", "mT"}, python.text))
      return std::nullopt;
    std::optional<Expression> object = translate(python.parts.front());
    return object ? std::optional(Expression::of("transpose", std::move(*object), {-2.0, -1.0}))
                  : std::nullopt;
  }
  case Kind::Unary: {
    std::optional<Expression> operand =
        python.text == "-" ? translate(python.parts.front()) : std::nullopt;
    return operand ? std::optional(Expression::of("neg", std::move(*operand))) : std::nullopt;
  }
  case Kind::Binary:
    if (StringRef op = kindOf(python.text); op != python.text)
      return combine(op, python.parts[0], python.parts[1]);
    return std::nullopt;
  case Kind::Call:
    return translateCall(python);
  case Kind::Index:
    return translateIndex(python);
  default:
    return std::nullopt;
  }
}

/// Whether the last operation of an expression may be one of this kind.
static bool isOfKind(const Expression &expression, StringRef op) {
  StringRef kind = kindOf(op);
  bool moves = expression.op == "index" || expression.op == "convert" || isMovement(expression.op);
  if (moves || isMovement(op))
    return moves && isMovement(op);
  if (expression.op == "div" && expression.operands[0].isNumber())
    return kind == "mul" || kind == "reciprocal" || kind == "div"; // 1 / x * number
  if (expression.op == "square" || expression.op == "sqrt")
    return kind == expression.op || kind == "pow";
  return kind == expression.op;
}

namespace {

/// An expression of a line, and the expression that reads it, at which place there.
struct Place {
  const PyExpr *expression;
  const PyExpr *reader;
  int place;
  /// Whether it is a function of parameters and numbers alone, which the exporter folds.
  bool isFolded = false;
};

/// The expressions of a line, operands before what reads them: in the order of computation.
class Line {
public:
  Line(StringRef text, ParameterOf parameterOf)
      : roots(expressionsIn(text)), parameterOf(parameterOf) {
    for (const PyExpr &root : roots)
      add(root, nullptr, -1);
    if (places.size() > kMaxPlaces)
      places.clear();
    for (Place &place : places)
      place.isFolded = isFolded(*place.expression);
  }

  /// Whether the operation that reads `value` may come from the reader at a place.
  bool isReader(const Place &place, const ReadValue &value) const;

  ArrayRef<Place> all() const { return places; }

private:
  bool isFolded(const PyExpr &expression) const {
    Reading reading;
    return Translator(parameterOf, reading).translate(expression).has_value();
  }

  void add(const PyExpr &expression, const PyExpr *reader, int place);
  std::vector<PyExpr> roots;
  ParameterOf parameterOf;
  std::vector<Place> places;
};

} // namespace

void Line::add(const PyExpr &expression, const PyExpr *reader, int place) {
  // Lists, and what is not modelled, hand their parts on. The object of a method is its operand.
  bool isPassed = expression.kind == Kind::List || expression.kind == Kind::Other ||
                  expression.kind == Kind::Slice;
  for (auto [i, part] : llvm::enumerate(expression.parts)) {
    bool isCallee = expression.kind == Kind::Call && i == 0;
    if (isCallee && part.kind != Kind::Attribute)
      continue;
    add(isCallee ? part.parts.front() : part, isPassed ? reader : &expression,
        isPassed ? place : int(i));
  }
  places.push_back({&expression, reader, place});
}

/// Whether an expression becomes an operation of this kind.
static bool isOf(const PyExpr &expression, StringRef kind) {
  if (expression.kind == Kind::Binary) {
    bool isProduct = llvm::is_contained({"bmm", "mv", "dot"}, kind);
    return kindOf(expression.text) == (isProduct ? "matmul" : kind);
  }
  StringRef called = expression.kind == Kind::Call ? kindOf(calledName(expression)) : "";
  return !called.empty() &&
         (called == kind || kind.starts_with(called) || called.starts_with(kind));
}

bool Line::isReader(const Place &place, const ReadValue &value) const {
  if (!place.reader)
    return true;
  const Reader &reader = value.reader;
  const PyExpr &expression = *place.reader;
  StringRef kind = kindOf(reader.kind);
  if (expression.kind == Kind::Index)
    return true;
  if (expression.kind == Kind::Binary && kindOf(expression.text) == expression.text)
    return true; // a comparison
  if (!isOf(expression, kind))
    return false;
  // If the line has as many expressions of the kind as there are operations, or was run several
  // times, the order tells which one it is. What was folded is no operation any more.
  std::vector<const PyExpr *> same;
  for (const Place &one : places)
    if (isOf(*one.expression, kind) && !one.isFolded)
      same.push_back(one.expression);
  if (reader.count && !same.empty() && reader.count % same.size() == 0 &&
      same[reader.order % same.size()] != &expression)
    return false;
  if (expression.kind != Kind::Binary || reader.argument < 0 || reader.argument > 1)
    return true;
  return (reader.kind == "rsub" ? 1 - reader.argument : reader.argument) == place.place;
}

static void addReading(std::vector<Reading> &readings, const PyExpr &python, StringRef op,
                       ParameterOf parameterOf) {
  Reading reading;
  std::optional<Expression> expression = Translator(parameterOf, reading).translate(python);
  if (!expression || reading.parameters.empty() || (!op.empty() && !isOfKind(*expression, op)))
    return;
  reading.expression = std::move(*expression);
  std::string key = reading.expression.key(reading.parameters);
  if (llvm::none_of(readings,
                    [&](const Reading &one) { return one.expression.key(one.parameters) == key; }))
    readings.push_back(std::move(reading));
}

std::vector<Reading> onnx::readingsOf(const ReadValue &value, ParameterOf parameterOf) {
  std::vector<Reading> readings;
  if (value.op.empty())
    return readings;
  Line line(value.line, parameterOf);
  for (const Place &place : line.all())
    if (line.isReader(place, value))
      addReading(readings, *place.expression, value.op, parameterOf);
  return readings;
}

std::vector<Reading> onnx::operandsOf(const ReadValue &value, ParameterOf parameterOf) {
  std::vector<Reading> readings;
  StringRef op = kindOf(value.op);
  Line line(value.line, parameterOf);
  for (const Place &place : line.all()) {
    const PyExpr &python = *place.expression;
    if (python.kind != Kind::Binary || kindOf(python.text) != op || !line.isReader(place, value) ||
        place.isFolded)
      continue;
    addReading(readings, python.parts[1], "", parameterOf);
    if (op == "add" || op == "mul")
      addReading(readings, python.parts[0], "", parameterOf);
  }
  return readings;
}
