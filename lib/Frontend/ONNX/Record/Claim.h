//===- Claim.h - What rules claim about parameters ------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_CLAIM_H
#define SHALE_FRONTEND_ONNX_RECORD_CLAIM_H

#include "lib/Frontend/ONNX/Record/Expression.h"
#include "lib/Frontend/ONNX/Record/Parameters.h"
#include "lib/Frontend/ONNX/Record/TracedProgram.h"
#include <variant>

namespace shale::onnx {

/// The ladder of evidence, the strongest first. Where claims about one operand differ, the stronger
/// one holds; two of equal strength are a contradiction, which is an error.
enum class Evidence {
  /// The nodes of an operation have the exporter's form, and the form says which argument the
  /// operand is. Nothing is inferred: this is stronger than a name, as values that are equal are
  /// merged under one name.
  Form,
  /// The initializer has the parameter's own name, and equal values are excluded or the operation
  /// names the parameter. The exporter gave the name to this parameter; an order is only ours.
  Name,
  /// The operation names the parameters, and its nodes read as many constants in that order. This
  /// follows from signatures of ATen's operations; a list of origins has no places.
  Order,
  /// The exporter lists the parameter as that from which it computed the constant.
  Origin,
  /// The record names one operation that computed the constant from one parameter.
  Operation,
  /// The parameter is the only one that the record leaves for a listed name.
  Elimination,
};

/// The value of a parameter before the first step.
struct InitialValue {
  const TensorProto *initializer = nullptr;
  bool transposed = false;
  /// The shape, if it is not that of the initializer, and the ONNX type of elements.
  std::optional<std::vector<int64_t>> shape = {};
  int32_t dataType = 1;
  /// The elements, if no initializer has them as they are.
  std::vector<double> values = {};
};

/// Nodes read a parameter, or a function of it.
struct ReadClaim {
  size_t parameter;
  llvm::SmallVector<Place> reads;
  bool transposed = false;
  /// None: the parameter itself.
  std::optional<Expression> expression = {};
  /// The operation that reads the parameter as its argument; null: a folded value is read.
  const Operation *operation = nullptr;
};

/// A parameter has this initial value. If its value is known already, that one remains.
struct ValueClaim {
  size_t parameter;
  InitialValue value;
};

/// The exporter dropped a bias of zeros of this node.
struct BiasClaim {
  size_t parameter;
  const NodeProto *node;
  int64_t size;
  int32_t dataType;
};

/// The exporter removed an operation between a value and the node that reads it.
struct RestoredClaim {
  Place read;
  Expression operation;
};

/// Nodes read an operation that the exporter merged with an equal one of another module. `values`
/// maps the parameters of the kept operation to those of the other, which have equal values.
struct MergedClaim {
  MergedOperation operation;
  llvm::SmallVector<Place> reads;
  std::map<size_t, size_t> values = {};
};

/// A listed name is a second name of another parameter.
struct NameClaim {
  size_t second, kept;
};

/// A claim of a rule and its evidence. The remark is made if the claim changes anything.
struct Claim {
  Evidence evidence;
  std::variant<ReadClaim, ValueClaim, BiasClaim, RestoredClaim, MergedClaim, NameClaim> what;
  std::optional<Repair> remark = {};
};

/// An operation that the exporter removed, such as a product by one or a duplicate of another
/// operation. A node's metadata still names its result, but the node reads something else. The
/// operands of the removed operation are not in the file.
struct RemovedOperation {
  std::string name;  ///< "mul_3"
  std::string scope; ///< the module of the node that names it
};

/// The result of a rule: claims, messages, and questions for later rules.
struct Findings {
  std::vector<Claim> claims = {};
  std::vector<std::string> errors = {}, notes = {};
  /// Removed operations that may have read a parameter.
  std::vector<RemovedOperation> removed = {};
  /// Parameters that the program does not have.
  std::vector<std::string> absent = {};
  void claim(Evidence evidence, decltype(Claim::what) what,
             std::optional<Repair> remark = std::nullopt) {
    claims.push_back({evidence, std::move(what), std::move(remark)});
  }
  static Findings error(std::string text) {
    Findings findings;
    findings.errors.push_back(std::move(text));
    return findings;
  }
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_CLAIM_H
