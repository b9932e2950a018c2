//===- Form.h - How PyTorch's exporter writes operations ------------------===//
//
// The exporter writes an operation of the exported program as one or several
// nodes. A form is the pattern of these nodes over the operation's arguments:
//
//   mean.dim(x, dims, keep=False) = ReduceMean(x, dims){keepdims=keep}
//
// Grammar of a line:
//
//   line      ::= kinds '(' parameters ')' '=' choice ('|' choice)*
//               | 'let' NAME '=' term            (NAME stands for the term later)
//   kinds     ::= kind ['.' overload] [',' kinds]
//   parameter ::= name [':' shape] ['=' default] (without a default: None; the shape of a
//                                                 constant that the exporter made of the
//                                                 argument: `flat`, the argument has one
//                                                 dimension; `open`, it is not known)
//   choice    ::= [name ('=' | '!=') literal ':'] term (if the argument is that, or not)
//               | 'every' ':' term               (of every node like the term's,
//                                                 of which `place` is the number)
//   term      ::= Node '(' terms ')' ['{' attribute '=' term, .. '}']
//               | function '(' terms ')'         (of numbers and lists)
//               | 'either(' terms ')'
//               | '*' term                       (once per item of a list)
//               | name | number | '"' text '"' | '[' terms ']' | '_'
//
// A Node begins with an upper-case letter. `_` stands for anything, `lowest` for
// minus infinity or the lowest number of a type.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_FORM_H
#define SHALE_FRONTEND_ONNX_RECORD_FORM_H

#include "lib/Frontend/ONNX/Record/Argument.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/Support/Error.h"
#include <memory>

namespace shale::onnx {

struct Term {
  enum class Kind { Node, Function, Either, Each, Argument, Literal, List, Any };
  Kind kind = Kind::Any;
  /// The operator, the function or the argument.
  std::string name = {};
  Argument literal = {};
  /// Operands, or items.
  std::vector<Term> parts = {};
  std::vector<std::pair<std::string, Term>> attributes = {};
};

/// One way in which an operation is written.
struct Choice {
  std::string onlyIf = {}; // an argument; empty: always
  Argument is = {};
  bool isNegated = false;
  bool ofEvery = false;
  Term term = {};
};

struct Form {
  struct Parameter {
    std::string name;
    Argument missing = {};
    /// The argument's shape where a node reads a constant that the exporter made of it: that of the
    /// constant, one dimension, or not known.
    enum class Shape { OfConstant, Flat, Open } shape = Shape::OfConstant;
  };
  std::vector<std::string> kinds;
  std::vector<Parameter> parameters;
  std::vector<Choice> choices;
};

/// Forms by the kind of operation, with or without an overload.
class Forms {
public:
  /// Parses lines of the grammar above; fails at the first invalid one.
  static llvm::Expected<Forms> parse(llvm::StringRef text);
  /// Returns the form of a target such as "aten.mean.dim"; null if there is none.
  const Form *find(llvm::StringRef target) const;

private:
  llvm::StringMap<Form> byKind;
};

/// Returns the forms of PyTorch's exporter (torch 2.9 to 2.15). Source: onnxscript's
/// function_libs/torch_lib, and files that it wrote.
const Forms &exporterForms();

/// A number that stands for minus infinity: the lowest of its type, or less.
inline constexpr llvm::StringLiteral kLowest = "lowest";

/// The arguments and facts about the graph from which a term is evaluated.
struct Surroundings {
  const llvm::StringMap<Argument> &arguments;
  /// Returns the sizes of a value's dimensions, -1 where one is not fixed; none if it has no type.
  llvm::function_ref<std::optional<llvm::SmallVector<int64_t>>(llvm::StringRef)> shapeOf;
  /// Whether the graph has a value of the exported program.
  llvm::function_ref<bool(llvm::StringRef)> isThere;
};

/// Whether terms may call a function of this name.
bool isTermFunction(llvm::StringRef name);

/// Returns the value of a term of arguments, numbers, lists and functions of these. `size` is the
/// number of elements that it is compared with. None if it is not known.
std::optional<Argument> evaluate(const Term &term, size_t size, const Surroundings &around);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_FORM_H
