// Folds ops on random constants, and compares each result bit by bit with the interpreter's.
#include "dialects/nn/NN.h"
#include "lib/Folding/Fold.h"
#include "lib/Interpreter/Interpreter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

using namespace mlir;
using namespace shale;
using folding::TypedBuffer;

namespace {

constexpr int kRounds = 40;

/// One op. `$t` in types and text stands for each of the element types in turn.
struct Case {
  std::string name;
  std::string elements;  // separated by spaces
  std::string arguments; // types of %0, %1, .., separated by semicolons
  std::string op;
  /// Integers are drawn from [-1, bound]; 0 for any. So some indices are out of range.
  int64_t bound = 0;
};

void PrintTo(const Case &test, std::ostream *out) { *out << test.name; }

std::string replaced(StringRef text, StringRef element) {
  SmallVector<StringRef> parts;
  text.split(parts, "$t");
  return llvm::join(parts, element);
}

class Constants {
public:
  Constants(unsigned seed, int64_t bound) : random(seed), bound(bound) {}

  /// Returns a constant; of three, one is a splat.
  DenseElementsAttr draw(RankedTensorType type) {
    bool isSplat = random() % 3 == 0;
    SmallVector<Attribute> values(isSplat ? 1 : type.getNumElements());
    for (Attribute &value : values)
      value = isa<FloatType>(type.getElementType()) ? drawFloat(type.getElementType())
                                                    : drawInteger(type.getElementType());
    return DenseElementsAttr::get(type, values);
  }
  bool flip() { return random() % 2; }

private:
  Attribute drawFloat(Type element) {
    static const double special[] = {0.0,  -0.0,    1.0,      -1.0,    INFINITY, -INFINITY,
                                     NAN,  0.5,     -0.5,     5e-324,  1e-40,    6e-8,
                                     2e30, 65519.9, 16777217, 0x1p-24, 1e300,    -1e300};
    double value = std::normal_distribution<double>(0, 3)(random);
    if (random() % 3 == 0)
      value = special[random() % std::size(special)];
    else if (random() % 3 == 0)
      value = std::round(value);
    llvm::APFloat number(value);
    bool lost;
    number.convert(cast<FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                   &lost);
    return FloatAttr::get(element, number);
  }
  Attribute drawInteger(Type element) {
    static const int64_t special[] = {0,         1,         -1,        INT64_MIN,
                                      INT64_MAX, INT32_MIN, INT32_MAX, int64_t(1) << 53};
    int64_t value = int64_t(random() % 9) - 4;
    if (bound)
      value = random() % 4 ? random() % bound : int64_t(random() % (bound + 2)) - 1;
    else if (random() % 2)
      value = random() % 2 ? int64_t(random()) : special[random() % std::size(special)];
    unsigned width = element.getIntOrFloatBitWidth();
    return IntegerAttr::get(element, llvm::APInt(64, value, true).trunc(width));
  }

  std::mt19937_64 random;
  const int64_t bound;
};

class Fold : public testing::TestWithParam<Case> {
protected:
  Fold() { context.loadDialect<func::FuncDialect, nn::NNDialect>(); }

  /// Returns the op of a function whose arguments are its operands.
  Operation *parse(StringRef arguments, StringRef op) {
    SmallVector<StringRef> types;
    arguments.split(types, ';', -1, false);
    std::string text = "func.func @f(";
    for (auto [i, type] : llvm::enumerate(types))
      text += (i ? ", %" : "%") + std::to_string(i) + ": " + type.trim().str();
    text += ") {\n  " + op.str() + "\n  return\n}\n";
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module) << text;
    return module ? &cast<func::FuncOp>(module->getBody()->front()).getBody().front().front()
                  : nullptr;
  }

  /// Returns the interpreter's result; null if it fails.
  DenseElementsAttr interpret(Operation *op, ArrayRef<DenseElementsAttr> operands) {
    ScopedDiagnosticHandler quiet(&context, [](Diagnostic &) { return success(); });
    std::vector<interp::Tensor> tensors;
    for (DenseElementsAttr operand : operands)
      tensors.push_back(interp::Tensor::fromAttr(operand));
    auto results = interp::Interpreter(interp::Options()).runOp(op, {tensors});
    return failed(results) ? DenseElementsAttr() : results->front().front().toAttr(&context);
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

/// Whether constants have the same elements, and are both splats or neither. NaNs are equal: which
/// NaN an operation returns is not defined.
bool agree(DenseElementsAttr lhs, DenseElementsAttr rhs) {
  if (!lhs || !rhs || lhs == rhs)
    return lhs == rhs;
  if (lhs.getType() != rhs.getType() || !isa<FloatType>(lhs.getElementType()))
    return false;
  return llvm::all_of_zip(lhs.getValues<APFloat>(), rhs.getValues<APFloat>(),
                          [](const APFloat &a, const APFloat &b) {
                            return a.bitwiseIsEqual(b) || (a.isNaN() && b.isNaN());
                          });
}

std::string textOf(DenseElementsAttr attr) {
  std::string text;
  llvm::raw_string_ostream(text) << Attribute(attr);
  return text;
}

TEST_P(Fold, EqualsTheInterpreter) {
  const Case &test = GetParam();
  for (StringRef element : llvm::split(test.elements, ' ')) {
    Operation *op = parse(replaced(test.arguments, element), replaced(test.op, element));
    ASSERT_TRUE(op);
    for (int round = 0; round < kRounds; ++round) {
      Constants constants(round, test.bound);
      SmallVector<DenseElementsAttr> operands;
      for (Type type : op->getOperandTypes())
        operands.push_back(constants.draw(cast<RankedTensorType>(type)));
      DenseElementsAttr wanted = interpret(op, operands), got = folding::fold(op, operands);
      EXPECT_TRUE(agree(got, wanted)) << element.str() << ": " << textOf(got) << " is not "
                                      << textOf(wanted) << " of " << textOf(operands.front());
    }
  }
}

// Operands that repeat along some dimensions, with strides of 0.
TEST_P(Fold, EqualsTheInterpreterOnRepeatedOperands) {
  const Case &test = GetParam();
  for (StringRef element : llvm::split(test.elements, ' ')) {
    Operation *op = parse(replaced(test.arguments, element), replaced(test.op, element));
    ASSERT_TRUE(op);
    for (int round = 0; round < kRounds; ++round) {
      Constants constants(round, test.bound);
      SmallVector<DenseElementsAttr> whole;
      SmallVector<TypedBuffer> repeated;
      SmallVector<DenseElementsAttr> kept;
      for (Type type : op->getOperandTypes()) {
        auto tensor = cast<RankedTensorType>(type);
        SmallVector<int64_t> shape(tensor.getShape());
        for (int64_t &size : shape)
          size = size > 1 && constants.flip() ? 1 : size;
        kept.push_back(constants.draw(tensor.clone(shape)));
        repeated.push_back(TypedBuffer::of(kept.back())->repeated(tensor.getShape()));
        whole.push_back(repeated.back().toAttr(tensor));
      }
      DenseElementsAttr wanted = interpret(op, whole), got = folding::fold(op, repeated);
      EXPECT_TRUE(agree(got, wanted))
          << element.str() << ": " << textOf(got) << " is not " << textOf(wanted);
    }
  }
}

const char *const kFloats = "f64 f32 f16 bf16";
const char *const kNumbers = "f64 f32 f16 bf16 i64 i32";
const char *const kAll = "f64 f32 f16 bf16 i64 i32 i1";

std::vector<Case> elementwiseCases() {
  std::vector<Case> cases;
  std::string type = "tensor<3x1x5x$t>";
  auto unary = [&](StringRef names, const char *elements) {
    for (StringRef name : llvm::split(names, ' '))
      cases.push_back({name.str(), elements, type, ("nn." + name + " %0 : ").str() + type});
  };
  auto binary = [&](StringRef names, const char *elements) {
    for (StringRef name : llvm::split(names, ' '))
      cases.push_back(
          {name.str(), elements, type + ";" + type, ("nn." + name + " %0, %1 : ").str() + type});
  };
  binary("add sub mul div rem max min", kNumbers);
  binary("pow xlogy", kFloats);
  binary("and", "i1 i32 i64");
  binary("or xor", "i1");
  unary("not", "i1");
  unary("neg abs sign", kNumbers);
  unary("stop_gradient floor ceil exp expm1 log log1p sqrt rsqrt tanh erf erfc erfcx sigmoid sin "
        "cos silu gelu",
        kFloats);
  cases.push_back({"gelu_tanh", kFloats, type, "nn.gelu %0 tanh : " + type});
  cases.push_back({"is_nan", kFloats, type, "nn.is_nan %0 : " + type + " -> tensor<3x1x5xi1>"});
  for (std::string predicate : {"eq", "ne", "lt", "le", "gt", "ge"})
    cases.push_back({"compare_" + predicate, kAll, type + ";" + type,
                     "nn.compare " + predicate + " %0, %1 : " + type + " -> tensor<3x1x5xi1>"});
  cases.push_back({"select", kAll, "tensor<3x1x5xi1>;" + type + ";" + type,
                   "nn.select %0, %1, %2 : tensor<3x1x5xi1>, " + type});
  for (StringRef to : llvm::split(kAll, ' '))
    cases.push_back({("cast_to_" + to).str(), kAll, type,
                     "nn.cast %0 : " + type + " -> tensor<3x1x5x" + to.str() + ">"});
  // A row that is longer than what is computed at once.
  cases.push_back({"long_rows", kNumbers, "tensor<2x1300x$t>;tensor<2x1300x$t>",
                   "nn.sub %0, %1 : tensor<2x1300x$t>"});
  cases.push_back(
      {"empty_rows", kNumbers, "tensor<3x0x$t>;tensor<3x0x$t>", "nn.div %0, %1 : tensor<3x0x$t>"});
  return cases;
}

std::vector<Case> movementCases() {
  return {
      {"iota", kNumbers, "", "nn.iota dim = 1 : tensor<2x300x3x$t>"},
      {"iota_rounded", "f16 bf16", "", "nn.iota dim = 0 : tensor<70000x$t>"},
      {"iota_empty", kNumbers, "", "nn.iota dim = 0 : tensor<3x0x$t>"},
      {"reshape", kAll, "tensor<2x3x4x$t>", "nn.reshape %0 : tensor<2x3x4x$t> -> tensor<6x4x$t>"},
      {"reshape_scalar", kAll, "tensor<$t>", "nn.reshape %0 : tensor<$t> -> tensor<1x1x$t>"},
      {"transpose", kAll, "tensor<2x3x4x$t>",
       "nn.transpose %0 perm = [2, 0, 1] : tensor<2x3x4x$t> -> tensor<4x2x3x$t>"},
      {"broadcast", kAll, "tensor<1x3x$t>",
       "nn.broadcast %0 dims = [0, 2] : tensor<1x3x$t> -> tensor<4x2x3x$t>"},
      {"broadcast_empty", kAll, "tensor<1x$t>",
       "nn.broadcast %0 dims = [1] : tensor<1x$t> -> tensor<4x0x$t>"},
      {"slice", kAll, "tensor<5x7x$t>",
       "nn.slice %0 starts = [1, 2] limits = [5, 7] strides = [1, 3] : tensor<5x7x$t> -> "
       "tensor<4x2x$t>"},
      {"slice_empty", kAll, "tensor<5x7x$t>",
       "nn.slice %0 starts = [5, 0] limits = [5, 7] strides = [1, 1] : tensor<5x7x$t> -> "
       "tensor<0x7x$t>"},
      {"slice_far", kAll, "tensor<5x7x$t>",
       "nn.slice %0 starts = [4, 0] limits = [5, 7] strides = [9223372036854775807, 7] : "
       "tensor<5x7x$t> -> tensor<1x1x$t>"},
      {"pad", kAll, "tensor<2x3x$t>",
       "nn.pad %0 low = [1, 0] high = [0, 2] interior = [0, 2] value = 1.0 : tensor<2x3x$t> -> "
       "tensor<3x9x$t>"},
      {"pad_rounded", kFloats, "tensor<3x$t>",
       "nn.pad %0 low = [1] high = [0] interior = [0] value = -3.3e38 : tensor<3x$t> -> "
       "tensor<4x$t>"},
      {"pad_empty", kAll, "tensor<0x$t>",
       "nn.pad %0 low = [1] high = [2] interior = [0] value = 0.0 : tensor<0x$t> -> tensor<3x$t>"},
      {"concat", kAll, "tensor<2x1x3x$t>;tensor<2x2x3x$t>;tensor<2x0x3x$t>",
       "nn.concat %0, %1, %2 dim = 1 : (tensor<2x1x3x$t>, tensor<2x2x3x$t>, tensor<2x0x3x$t>) -> "
       "tensor<2x3x3x$t>"},
  };
}

std::vector<Case> lookupCases() {
  // The bound of indices is also that of tables of integers.
  std::vector<Case> cases;
  for (std::string index : {"i64", "i32"}) {
    cases.push_back({"gather_" + index, kAll, "tensor<2x6x3x$t>;tensor<2x1x" + index + ">",
                     "nn.gather %0, %1 dim = 1 : (tensor<2x6x3x$t>, tensor<2x1x" + index +
                         ">) -> tensor<2x2x1x3x$t>",
                     6});
    cases.push_back({"gather_last_" + index, kAll, "tensor<2x6x$t>;tensor<3x2x" + index + ">",
                     "nn.gather %0, %1 dim = 1 : (tensor<2x6x$t>, tensor<3x2x" + index +
                         ">) -> tensor<2x3x2x$t>",
                     6});
    cases.push_back(
        {"embedding_" + index, kFloats, "tensor<6x3x$t>;tensor<2x1x" + index + ">",
         "nn.embedding %0, %1 : (tensor<6x3x$t>, tensor<2x1x" + index + ">) -> tensor<2x1x3x$t>",
         6});
    cases.push_back({"gather_nd_" + index, kAll, "tensor<4x5x3x$t>;tensor<2x3x2x" + index + ">",
                     "nn.gather_nd %0, %1 batch_dims = 0 : (tensor<4x5x3x$t>, tensor<2x3x2x" +
                         index + ">) -> tensor<2x3x3x$t>",
                     4});
    cases.push_back({"gather_nd_batches_" + index, kAll,
                     "tensor<2x5x3x$t>;tensor<2x4x2x" + index + ">",
                     "nn.gather_nd %0, %1 batch_dims = 1 : (tensor<2x5x3x$t>, tensor<2x4x2x" +
                         index + ">) -> tensor<2x4x$t>",
                     4});
    cases.push_back({"gather_nd_grad_" + index, kFloats,
                     "tensor<2x9x1x" + index + ">;tensor<2x9x3x$t>",
                     "nn.gather_nd_grad %0, %1 batch_dims = 1 : (tensor<2x9x1x" + index +
                         ">, tensor<2x9x3x$t>) -> tensor<2x4x3x$t>",
                     4});
  }
  cases.push_back({"embedding_of_empty", kFloats, "tensor<0x3x$t>;tensor<2xi64>",
                   "nn.embedding %0, %1 : (tensor<0x3x$t>, tensor<2xi64>) -> tensor<2x3x$t>", 1});
  cases.push_back({"gather_empty", kAll, "tensor<0x3x$t>;tensor<2xi64>",
                   "nn.gather %0, %1 dim = 1 : (tensor<0x3x$t>, tensor<2xi64>) -> tensor<0x2x$t>",
                   3});
  cases.push_back({"gather_of_empty", kAll, "tensor<0x3x$t>;tensor<2xi64>",
                   "nn.gather %0, %1 dim = 0 : (tensor<0x3x$t>, tensor<2xi64>) -> tensor<2x3x$t>",
                   1});
  return cases;
}

std::vector<Case> reductionCases() {
  std::vector<Case> cases;
  for (std::string kind : {"sum", "prod", "max", "min"})
    for (auto [elements, result] : {std::pair("f64 i64 i32 f32", "$t"), {"f16 bf16", "f32"}}) {
      std::string suffix = result[0] == '$' ? "" : "_of_16_bits", to = result;
      cases.push_back(
          {"reduce_" + kind + suffix, elements, "tensor<3x4x5x$t>",
           "nn.reduce " + kind + " %0 dims = [0, 2] : tensor<3x4x5x$t> -> tensor<4x" + to + ">"});
      cases.push_back(
          {"reduce_all_" + kind + suffix, elements, "tensor<3x400x$t>",
           "nn.reduce " + kind + " %0 dims = [0, 1] : tensor<3x400x$t> -> tensor<" + to + ">"});
      cases.push_back(
          {"reduce_empty_" + kind + suffix, elements, "tensor<3x0x$t>",
           "nn.reduce " + kind + " %0 dims = [1] : tensor<3x0x$t> -> tensor<3x" + to + ">"});
    }
  for (std::string flags : {"", "exclusive ", "reverse ", "exclusive reverse "}) {
    std::string name = "cumsum_" + flags;
    std::replace(name.begin(), name.end(), ' ', '_');
    cases.push_back({name, kNumbers, "tensor<2x7x3x$t>",
                     "nn.cumsum %0 dim = 1 " + flags + ": tensor<2x7x3x$t>"});
  }
  return cases;
}

std::string nameOf(const testing::TestParamInfo<Case> &info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Elementwise, Fold, testing::ValuesIn(elementwiseCases()), nameOf);
INSTANTIATE_TEST_SUITE_P(Movement, Fold, testing::ValuesIn(movementCases()), nameOf);
INSTANTIATE_TEST_SUITE_P(Lookups, Fold, testing::ValuesIn(lookupCases()), nameOf);
INSTANTIATE_TEST_SUITE_P(Reductions, Fold, testing::ValuesIn(reductionCases()), nameOf);

/// Ops that stay.
class Stays : public Fold {
protected:
  DenseElementsAttr fold(StringRef arguments, StringRef op, ArrayRef<DenseElementsAttr> operands) {
    Operation *parsed = parse(arguments, op);
    return parsed ? folding::fold(parsed, operands) : DenseElementsAttr();
  }
  DenseElementsAttr splat(ArrayRef<int64_t> shape, float value) {
    return DenseElementsAttr::get(RankedTensorType::get(shape, Float32Type::get(&context)), value);
  }
  DenseElementsAttr indices(ArrayRef<int64_t> values) {
    return DenseElementsAttr::get(
        RankedTensorType::get({int64_t(values.size())}, IntegerType::get(&context, 64)), values);
  }
};

TEST_F(Stays, IndexOutOfRange) {
  const char *arguments = "tensor<3x2xf32>; tensor<2xi64>";
  const char *op = "nn.gather %0, %1 dim = 0 : (tensor<3x2xf32>, tensor<2xi64>) -> tensor<2x2xf32>";
  EXPECT_TRUE(fold(arguments, op, {splat({3, 2}, 1), indices({0, 2})}));
  for (int64_t index : {int64_t(3), int64_t(-1), std::numeric_limits<int64_t>::max(),
                        std::numeric_limits<int64_t>::min()})
    EXPECT_FALSE(fold(arguments, op, {splat({3, 2}, 1), indices({0, index})})) << index;
}

TEST_F(Stays, SizeThatOverflows) {
  // 2^62 * 4 bytes, and 2^63 elements.
  for (std::string shape : {"4611686018427387904", "3037000500x3037000500"}) {
    std::string type = "tensor<" + shape + "xf32>";
    EXPECT_FALSE(fold("tensor<1xf32>",
                      shape.find('x') == std::string::npos
                          ? "nn.broadcast %0 dims = [0] : tensor<1xf32> -> " + type
                          : "nn.broadcast %0 dims = [1] : tensor<1xf32> -> " + type,
                      {splat({1}, 1)}));
  }
}

TEST_F(Stays, ResultOfTooManyElements) {
  EXPECT_FALSE(fold("tensor<1xf32>",
                    "nn.broadcast %0 dims = [1] : tensor<1xf32> -> tensor<65536x65536xf32>",
                    {splat({1}, 1)}));
}

TEST_F(Stays, OperandOfAnotherType) {
  const char *arguments = "tensor<3xf32>; tensor<3xf32>", *op = "nn.add %0, %1 : tensor<3xf32>";
  EXPECT_TRUE(fold(arguments, op, {splat({3}, 1), splat({3}, 2)}));
  EXPECT_FALSE(fold(arguments, op, {splat({3}, 1), splat({4}, 2)}));
  EXPECT_FALSE(fold(arguments, op, {splat({3}, 1), indices({1, 2, 3})}));
  EXPECT_FALSE(fold(arguments, op, {splat({3}, 1)}));
  EXPECT_FALSE(fold(arguments, op, {splat({3}, 1), DenseElementsAttr()}));
}

TEST_F(Stays, OpWithoutEvaluator) {
  EXPECT_FALSE(fold("tensor<3xf32>", "\"nn.softmax\"(%0) : (tensor<3xf32>) -> tensor<3xf32>",
                    {splat({3}, 1)}));
}

TEST_F(Stays, OpOfSeveralResults) {
  EXPECT_FALSE(fold("tensor<3x2xf32>;tensor<2xf32>",
                    "\"nn.rms_norm\"(%0, %1) {epsilon = 1.0 : f64} : (tensor<3x2xf32>, "
                    "tensor<2xf32>) -> (tensor<3x2xf32>, tensor<3xf32>)",
                    {splat({3, 2}, 1), splat({2}, 1)}));
}

// A result that repeats is a splat, however it was computed.
TEST_F(Stays, OneSplatPerValue) {
  DenseElementsAttr whole = fold("tensor<3xi64>;tensor<3xi64>", "nn.sub %0, %1 : tensor<3xi64>",
                                 {indices({4, 5, 6}), indices({4, 5, 6})});
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole.isSplat());
  EXPECT_EQ(whole, DenseElementsAttr::get(whole.getType(), int64_t(0)));
}

} // namespace
