//===- TracedRecord.h - The record of a traced program --------------------===//
//
// The metadata of a file that PyTorch's exporter wrote is a partial record of the program that
// torch.export traced: its parameters, and for each node the traced operation with its arguments,
// module and line of source. An operation that the exporter removed or folded has no node, but its
// name stands among the arguments of those that read it.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_RECORD_TRACEDRECORD_H
#define SHALE_FRONTEND_ONNX_RECORD_TRACEDRECORD_H

#include "lib/Frontend/ONNX/Import.h"
#include "lib/Frontend/ONNX/Record/FitForm.h"
#include "lib/Frontend/ONNX/Record/Operation.h"
#include "lib/Frontend/ONNX/Rules/Expression.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace shale::onnx {

/// The traced program as far as the file has it. It does not change once it is parsed.
class TracedRecord {
public:
  explicit TracedRecord(Model &model);
  TracedRecord(const TracedRecord &) = delete;

  const GraphProto &graph() const { return proto; }

  /// Its parameters and buffers, in PyTorch's order, have each placeholder once. Elsewhere they are
  /// numbered by this order.
  const Signature &signature() const { return listed; }
  /// Their full names.
  llvm::ArrayRef<std::string> targets() const { return names; }
  llvm::StringRef target(size_t parameter) const { return names[parameter]; }
  /// Returns the first parameter or buffer of this full name.
  std::optional<size_t> parameterNamed(llvm::StringRef target) const;
  /// Returns the parameter or buffer that records of operations call `placeholder`.
  std::optional<size_t> parameterOf(llvm::StringRef placeholder) const;

  /// The operations that have nodes, in the order of the graph.
  const std::vector<TracedOperation> &operations() const { return all; }
  /// Whether a module, or one inside of it, has operations.
  bool hasOperations(llvm::StringRef module) const { return scopes.contains(module); }
  /// Whether an operand of a node, where the form of an operation has an argument, is the value of
  /// the exported program that the record calls `name`.
  Fit fitValue(llvm::StringRef name, llvm::StringRef operand) const;

  /// Whether the graph has a value of this name, or the program an input.
  bool has(llvm::StringRef name) const { return known.contains(name); }
  bool isInput(llvm::StringRef name) const { return inputs.contains(name); }
  /// Whether a node computes a value of this name.
  bool isComputed(llvm::StringRef name) const { return makers.count(name); }
  /// Returns the operation that computes a value; null if its node belongs to none.
  const TracedOperation *makerOf(llvm::StringRef value) const { return makers.lookup(value); }
  /// Returns the operation that a node belongs to; null if it has no record.
  const TracedOperation *ownerOf(const NodeProto &node) const { return owners.lookup(&node); }
  /// Whether an operation has this target: "aten.softmax.int".
  bool hasOperation(llvm::StringRef target) const;
  /// Returns the place of a node in the graph.
  size_t placeOf(const NodeProto &node) const { return places.lookup(&node); }
  /// Returns the node that computes a value, or null.
  const NodeProto *nodeOf(llvm::StringRef value) const { return nodes.lookup(value); }

  /// Returns the initializer of floats of this name, or null.
  const TensorProto *initializer(llvm::StringRef name) const { return constants.lookup(name); }
  /// Returns the elements of an initializer; none if it cannot be read, or is too large to be
  /// searched.
  std::optional<Numbers> numbersOf(const TensorProto &tensor) const;
  /// The context in which expressions are evaluated.
  mlir::MLIRContext &context() const { return *evaluation; }

  /// Returns the names that a value was folded from; empty if the exporter does not say so.
  llvm::ArrayRef<std::string> foldedFrom(llvm::StringRef value) const;
  /// Whether the exporter says of any value what it was folded from.
  bool listsOrigins() const { return !origins.empty(); }
  /// Whether a name is that of a constant, or of a value that another one was folded from.
  bool isFolded(llvm::StringRef name) const { return folded.contains(name) || initializer(name); }
  /// Whether an initializer was folded from a parameter.
  bool isFoldedIntoOther(llvm::StringRef target) const;
  /// Whether a value that an operation names and does not read may have been computed from a
  /// parameter. No gradient flows to masks, tensors that code creates, and sizes.
  bool mayHideParameter(llvm::StringRef name) const;
  /// Returns the names that an operation has for its operands and that no value of the graph has.
  llvm::SmallVector<llvm::StringRef> missingNames(const TracedOperation &operation) const;
  /// Returns the number of values of other nodes that an operation reads but its record does not
  /// name.
  size_t unnamedInputs(const TracedOperation &operation) const;
  /// Whether an operation reads the value of this name.
  bool isRead(const TracedOperation &operation, llvm::StringRef name) const;
  /// Whether a value that an operation reads is no result of its maker: one that the maker's nodes
  /// share with this operation's, as the exporter merged them.
  bool isInnerValue(const TracedOperation &operation, llvm::StringRef value) const;
  /// Returns `last` and the operations of its module that it is computed from, for example all
  /// operations of a norm.
  llvm::SmallSetVector<const TracedOperation *, 4>
  operationsOfCall(const TracedOperation &last) const;
  /// Whether the derivative of an operation, or of one that reads its result moved, is unbounded
  /// near an operand of 0.
  bool isUnboundedAtZero(const TracedOperation &operation) const;
  /// Whether an operation's record names a parameter as its bias, whatever its name.
  bool isBias(const TracedOperation &operation, size_t parameter) const;

private:
  void parseOperations();
  void parseNames();
  bool isPartOfSplit(llvm::StringRef value) const;

  Model &model;
  const GraphProto &proto;
  std::unique_ptr<mlir::MLIRContext> evaluation;
  Signature listed;
  std::vector<std::string> names;
  llvm::StringMap<size_t> byTarget, byPlaceholder;
  llvm::StringMap<const TensorProto *> constants;
  std::vector<TracedOperation> all;
  /// Indices into `all`, by "%name".
  llvm::StringMap<size_t> byName;
  llvm::StringSet<> known, inputs, folded;
  /// The modules of operations, and those around them.
  llvm::StringSet<> scopes;
  /// The values from which each value was folded, if the exporter recorded them.
  llvm::StringMap<std::vector<std::string>> origins;
  llvm::StringMap<const TracedOperation *> makers;
  llvm::StringMap<const NodeProto *> nodes;
  llvm::DenseMap<const NodeProto *, size_t> places;
  llvm::DenseMap<const NodeProto *, const TracedOperation *> owners;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_RECORD_TRACEDRECORD_H
