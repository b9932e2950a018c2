//===- FitForm.h - Nodes against the form of their operation --------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_FITFORM_H
#define SHALE_FRONTEND_ONNX_RECORD_FITFORM_H

#include "lib/Frontend/ONNX/Record/Form.h"
#include "lib/Frontend/ONNX/Record/Operation.h"
#include <map>

namespace shale::onnx {

class TracedRecord;

/// How nodes and a form compare.
enum class Fit {
  Yes,
  Open,  // what can be compared is equal
  No,    // an attribute or an operand is another one
  Other, // the nodes are others: the operation is written in another way
};

/// Where nodes differ from a form: an operand, an attribute, or, if it has neither, how the nodes
/// read each other.
struct Difference {
  const NodeProto *node = nullptr;
  int operand = -1;
  std::string attribute;
  std::string found, expected;
};

/// Whether the exporter writes nodes of this kind wherever it needs them, as for shapes.
bool isAnywhere(llvm::StringRef op);

/// Compares the nodes of operations with forms.
class FormFitter {
public:
  explicit FormFitter(const TracedRecord &record);

  /// Whether a value has floats.
  bool isFloat(llvm::StringRef value) const;
  /// Compares the nodes of an operation with its form. Returns Other if it has none. Sets
  /// `difference` if the result is No.
  Fit fit(const TracedOperation &operation, Difference &difference);
  /// The meaning of a node's operand by the form of its operation.
  struct Meaning {
    /// Its form has an argument there, a number included, and not a node that computes with one.
    bool isArgument = false;
    /// The operand is a number that the record has, or that the exporter writes for every such
    /// operation.
    bool isNumber = false;
    /// The name of the argument's value in the exported program; empty if it is none.
    std::string value = {};
    /// Whether the constant that the operand is has the argument transposed.
    bool isTurned = false;
    /// Whether the argument has one dimension, whatever the constant's shape.
    bool isFlat = false;
  };
  /// Returns what an operand is; null if its operation has no form, or is written otherwise. An
  /// operand that a node lacks may have a meaning, too.
  const Meaning *meaningOf(const NodeProto &node, int operand) const {
    auto found = meanings.find({&node, operand});
    return found == meanings.end() ? nullptr : &found->second;
  }

private:
  friend class OneFit;
  /// Numbers, and names of values of the exported program, as a node reads them.
  struct Items {
    std::vector<Argument> list;
    /// The largest relative error of a number in the constants' type.
    double rounding = 0;
  };
  /// Returns the elements of a constant of at most kMaxElements elements; none if it is not one.
  std::optional<Items> elementsOf(llvm::StringRef value) const;
  std::optional<llvm::SmallVector<int64_t>> shapeOf(llvm::StringRef value) const;

  const TracedRecord &record;
  llvm::StringMap<const TensorProto *> constants; // initializers and Constant nodes
  llvm::StringMap<const ValueInfoProto *> types;
  std::map<std::pair<const NodeProto *, int>, Meaning> meanings;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_FITFORM_H
