//===- SourceLine.cpp - Functions of parameters in the model's source -----===//
#include "lib/Frontend/ONNX/Expression.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Regex.h"
#include <cmath>

using namespace mlir;
using namespace shale;
using namespace shale::onnx;

namespace {
/// A way to write a * p + b: N is a number, S the attribute.
struct LinearForm {
  const char *text;
  std::pair<double, double> (*make)(ArrayRef<double>); // a and b from the numbers in their order
};
} // namespace

static const LinearForm linearForms[] = {
    {"N+S", [](ArrayRef<double> n) { return std::make_pair(1.0, n[0]); }},
    {"S+N", [](ArrayRef<double> n) { return std::make_pair(1.0, n[0]); }},
    {"N-S", [](ArrayRef<double> n) { return std::make_pair(-1.0, n[0]); }},
    {"S-N", [](ArrayRef<double> n) { return std::make_pair(1.0, -n[0]); }},
    {"N*S", [](ArrayRef<double> n) { return std::make_pair(n[0], 0.0); }},
    {"S*N", [](ArrayRef<double> n) { return std::make_pair(n[0], 0.0); }},
    {"S/N", [](ArrayRef<double> n) { return std::make_pair(1 / n[0], 0.0); }},
    {"N*S+N", [](ArrayRef<double> n) { return std::make_pair(n[0], n[1]); }},
    {"N*S-N", [](ArrayRef<double> n) { return std::make_pair(n[0], -n[1]); }},
    {"S*N+N", [](ArrayRef<double> n) { return std::make_pair(n[0], n[1]); }},
    {"S*N-N", [](ArrayRef<double> n) { return std::make_pair(n[0], -n[1]); }},
    {"N+N*S", [](ArrayRef<double> n) { return std::make_pair(n[1], n[0]); }},
    {"N-N*S", [](ArrayRef<double> n) { return std::make_pair(-n[1], n[0]); }},
    {"N+S*N", [](ArrayRef<double> n) { return std::make_pair(n[1], n[0]); }},
    {"N-S*N", [](ArrayRef<double> n) { return std::make_pair(-n[1], n[0]); }},
};

/// Returns the expression if the line has the attribute in this form as a whole operand.
static std::optional<Expression> matchLinear(const LinearForm &form, StringRef line,
                                             StringRef self) {
  // An operand ends at a bracket, a comma or an operator that binds no tighter.
  std::string pattern = "(^|[(,=[]|return) *";
  SmallVector<unsigned> numberGroups;
  unsigned groups = 1; // so far; the attribute has one
  for (char c : StringRef(form.text)) {
    if (c == 'N')
      numberGroups.push_back(groups + 1);
    groups += c == 'N' || c == 'S';
    pattern += c == 'N'   ? "([0-9]+\\.?[0-9]*)"
               : c == 'S' ? self.str()
                          : std::string(" *[") + c + "] *";
  }
  SmallVector<StringRef> found;
  if (!llvm::Regex(pattern + " *($|[]),;+]|- )").match(line, &found))
    return std::nullopt;
  SmallVector<double> numbers(numberGroups.size());
  for (auto [number, group] : llvm::zip(numbers, numberGroups))
    if (found[group].getAsDouble(number))
      return std::nullopt;
  auto [scale, shift] = form.make(numbers);
  if (scale == 0 || !std::isfinite(scale))
    return std::nullopt;
  return Expression{Function::Identity, scale, shift, {}};
}

std::optional<Expression> onnx::readSourceLine(StringRef line, StringRef attribute, StringRef op) {
  if (op.empty() || isMovement(op))
    return std::nullopt;
  std::string cast = "(\\.float\\(\\)|\\.to\\([^()]*\\)|\\.type_as\\([^()]*\\))?";
  std::string self = "[A-Za-z_][A-Za-z_0-9]*\\." + llvm::Regex::escape(attribute) + cast;
  std::vector<Expression> found;
  for (const LinearForm &form : linearForms)
    if (std::optional<Expression> expression = matchLinear(form, line, self)) {
      // The operation that was folded last is the sum, if there is one.
      bool sums = llvm::is_contained({"add", "sub", "rsub"}, op),
           scales = llvm::is_contained({"mul", "div"}, op);
      if (expression->shift != 0 ? sums : scales)
        found.push_back(*expression);
    }
  const std::pair<std::string, Expression> functions[] = {
      {"- *torch\\.exp\\( *" + self + " *\\)", {Function::Exp, -1, 0, {}}},
      {"- *" + self + "\\.exp\\(\\)", {Function::Exp, -1, 0, {}}},
      {"torch\\.exp\\( *" + self + " *\\)", {Function::Exp, 1, 0, {}}},
      {self + "\\.exp\\(\\)", {Function::Exp, 1, 0, {}}},
      {"(torch|F|functional)\\.sigmoid\\( *" + self + " *\\)", {Function::Sigmoid, 1, 0, {}}},
      {self + "\\.sigmoid\\(\\)", {Function::Sigmoid, 1, 0, {}}},
      {"(F|functional)\\.softplus\\( *" + self + " *\\)", {Function::Softplus, 1, 0, {}}},
  };
  for (const auto &[pattern, expression] : functions)
    if (llvm::Regex(pattern).match(line) && agrees(expression, op))
      found.push_back(expression);
  if (found.empty() || llvm::any_of(found, [&](const Expression &other) {
        return other.function != found[0].function || other.scale != found[0].scale ||
               other.shift != found[0].shift;
      }))
    return std::nullopt;
  return found[0];
}
