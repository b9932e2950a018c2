//===- Python.h - Expressions in a line of Python -------------------------===//
//
// PyTorch's exporter records the line of the model's source that each operation
// comes from, often only a part of a statement. This parser finds the
// expressions in it. Grammar: docs.python.org/3/reference/expressions.html.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_PYTHON_H
#define SHALE_FRONTEND_ONNX_RECORD_PYTHON_H

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace shale::onnx {

/// An expression of Python. What the parser does not model, such as a lambda or a comprehension, is
/// Other, and its parts are what could be parsed inside.
struct PyExpr {
  enum class Kind { Name, Number, Attribute, Call, Index, Slice, Unary, Binary, List, Other };
  Kind kind = Kind::Other;
  /// The name, the attribute's name, or the operator.
  std::string text = {};
  double number = 0;
  /// Attribute: the object. Call: what is called, then the arguments. Index: the object, then the
  /// indices. Slice: start, end and step; Other where one is left out. Unary, Binary: operands.
  std::vector<PyExpr> parts = {};
  /// For a call: one entry per argument, its keyword or an empty string.
  std::vector<std::string> keywords = {};

  bool isName(llvm::StringRef name) const { return kind == Kind::Name && text == name; }
};

/// Returns the largest expressions of a line, in their order. A line may begin or end in the middle
/// of a statement: `) * torch.exp(self.a),` gives `torch.exp(self.a)`. Of a call without its
/// closing parenthesis, the arguments so far are returned. Empty for lines of more than 1024
/// characters and for expressions that are nested more than 64 deep.
std::vector<PyExpr> expressionsIn(llvm::StringRef line);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_PYTHON_H
