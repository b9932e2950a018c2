//===- Argument.h - Arguments of operations of the exported program -------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_ARGUMENT_H
#define SHALE_FRONTEND_ONNX_RECORD_ARGUMENT_H

#include "lib/Frontend/ONNX/Reader/Model.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>
#include <vector>

namespace shale::onnx {

/// An argument as the record of an operation has it.
struct Argument {
  enum class Kind { None, Value, Number, List, Text };
  Kind kind = Kind::None;
  std::string text = {}; // the name of a value, without %, or the text
  double number = 0;     // True is 1, False is 0
  std::vector<Argument> items = {};

  static Argument of(double number) { return {Kind::Number, {}, number}; }
  static Argument of(std::vector<Argument> items) { return {Kind::List, {}, 0, std::move(items)}; }
  bool isNone() const { return kind == Kind::None; }
  bool isNumber() const { return kind == Kind::Number; }
  bool isValue() const { return kind == Kind::Value; }

  /// Returns the argument as a record has it: "%mul_3", "[1, 2]", "1e-05".
  std::string str() const;
};

/// Parses an argument as a record has it.
Argument parseArgument(llvm::StringRef text);

/// Splits text at commas outside of brackets. Leaves empty parts out.
llvm::SmallVector<llvm::StringRef> splitList(llvm::StringRef text);
/// Returns "0.1" for 0.1.
std::string shortest(double number);

/// Returns an attribute as a record would have it; none if it is a tensor or a graph.
std::optional<Argument> attributeOf(const AttributeProto &attribute);

/// Returns the value of an attribute that a node does not have, which is also the one that it must
/// have where a form does not name it. Source: the ONNX operators' definitions.
std::optional<Argument> missingAttribute(llvm::StringRef op, llvm::StringRef name);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_ARGUMENT_H
