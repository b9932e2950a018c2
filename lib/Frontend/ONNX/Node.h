//===- Node.h - Interface of op handlers ----------------------------------===//
//
// A handler translates one node of an ONNX graph to ops. Handlers register under
// domain, operator and operator set. This header does not include the messages of
// the file format, so that a plug-in builds without protobuf.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_NODE_H
#define SHALE_FRONTEND_ONNX_NODE_H

#include "lib/Frontend/ONNX/Needs.h"
#include "lib/Frontend/ONNX/Tensor.h"
#include "lib/Frontend/ONNX/Text.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"
#include <functional>
#include <map>

namespace shale::onnx {

class AttributeProto;
class Building;
class Node;
class NodeProto;
struct Scope;

/// Copies of a shape: with another size of a dimension, without the dimension, and with one more.
Sizes withSize(llvm::ArrayRef<int64_t> shape, int64_t dim, int64_t size);
Sizes withoutDim(llvm::ArrayRef<int64_t> shape, int64_t dim);
Sizes withDim(llvm::ArrayRef<int64_t> shape, int64_t dim, int64_t size);
/// Lists one after another, and the numbers [first, end).
Sizes joinedSizes(std::initializer_list<llvm::ArrayRef<int64_t>> lists);
Sizes dimRange(int64_t first, int64_t end);
/// The permutation that reverses another one.
Sizes inverse(llvm::ArrayRef<int64_t> perm);
/// The numbers [0, rank), and these with one at the end or exchanged with the last one.
Sizes allDims(int64_t rank);
Sizes dimToEnd(int64_t rank, int64_t dim);
Sizes dimAndLast(int64_t rank, int64_t dim);

/// How the nodes of an operator are imported.
struct Operator {
  std::function<mlir::LogicalResult(Node &)> handler;
  Needs needs = {};

  explicit operator bool() const { return bool(handler); }
  /// Checks the operands and sets the results. Returns failure after an error on the node.
  mlir::LogicalResult import(Node &node) const;
};

/// Operators by (domain, type), each from a version of its operator set on.
class HandlerRegistry {
public:
  /// The domain of standard operators is "". `handler` takes the node, its first operands, or the
  /// node and then these. It returns the only result, null after an error, or sets the results and
  /// returns whether it did.
  template <typename HandlerT>
  void add(llvm::StringRef domain, llvm::StringRef type, int64_t since, HandlerT handler,
           Needs needs = {});
  /// Adds the operators of another registry. Adds none and fails if it has one that is here.
  llvm::Error merge(const HandlerRegistry &other);
  /// Returns the newest one whose version is not above `version`; an empty one if there is none.
  Operator find(llvm::StringRef domain, llvm::StringRef type, int64_t version) const;

private:
  llvm::StringMap<std::map<int64_t, Operator>> table;
};

/// All handlers: one family of ops per file of Ops/, and those of plug-ins. Plug-ins add theirs
/// before the first import.
HandlerRegistry &getHandlers();

/// The value of a name in a graph, or of an operand.
struct Binding {
  mlir::Value value;                         // a tensor
  llvm::SmallVector<mlir::Value> items = {}; // or a sequence of tensors
  bool isSequence = false;
  int32_t narrow = 0; // the ONNX data type if values do not have it (Narrow.cpp)
};

/// A function that has reported an error returns this: it converts to the failure value of the
/// function's type.
struct Refused {
  operator mlir::LogicalResult() const { return mlir::failure(); }
  operator Tensor() const { return {}; }
  operator mlir::Type() const { return {}; }
  template <typename T> operator mlir::FailureOr<T>() const { return mlir::failure(); }
};

/// One node while it is translated: its attributes, operands and results, and arithmetic on them.
class Node {
public:
  /// `depth`: of calls and subgraphs around it. `operands`: in order, null where absent.
  Node(Building &building, const NodeProto &proto, Scope &scope, int depth,
       llvm::SmallVector<Binding> operands);

  /// The services that the handler may use beside the node.
  Building &building;
  mlir::OpBuilder &builder;
  const NodeProto &proto;
  Scope &scope;
  const int64_t version; // of the operator set
  const int depth;
  mlir::Location loc;

  /// Emits the first error on the node, with a part of the message in the place of each "{}".
  template <typename... Parts> Refused error(const llvm::Twine &pattern, Parts &&...parts) {
    return fail(sayAll(pattern, std::forward<Parts>(parts)...));
  }
  bool hasFailed() const { return failedOnce; }
  /// The operation that PyTorch's exporter wrote the node for, "aten.clamp.Tensor", and empty for
  /// other nodes. Where an operator of ONNX stands for several, it selects the gradient at ties.
  std::string tracedAs() const;
  /// Whether PyTorch wrote the file.
  bool isFromPyTorch() const;

  // Attributes; a scalar of the wrong type is an error and fails the node.

  const AttributeProto *attribute(llvm::StringRef name);
  /// The attribute, or that of the function call which it refers to; null if the call lacks it.
  const AttributeProto *resolved(const AttributeProto &attribute) const;
  int64_t intAttr(llvm::StringRef name, int64_t missing);
  /// A yes or no, which is 0 or 1 in the file.
  bool flagAttr(llvm::StringRef name, bool missing);
  double floatAttr(llvm::StringRef name, double missing);
  std::string stringAttr(llvm::StringRef name, llvm::StringRef missing);
  /// A string that is one of `choices`, the first of which is the default.
  std::string choiceAttr(llvm::StringRef name, llvm::ArrayRef<llvm::StringRef> choices);
  std::optional<Sizes> intsAttr(llvm::StringRef name);
  /// An element type. Returns null after an error.
  mlir::Type typeAttr(llvm::StringRef name, mlir::Type missing);

  /// Counts a negative axis from the end; fails, with an error, if out of range.
  mlir::LogicalResult normalize(int64_t &axis, int64_t rank);
  mlir::LogicalResult normalizeAll(llvm::SmallVectorImpl<int64_t> &axes, int64_t rank);

  // Operands and results.

  int numInputs() const;
  int numOutputs() const;
  bool has(int operand) const;
  bool wants(int result) const;
  /// Whether another node reads the result, or it is an output: wants() only if it has a name.
  bool isRead(int result) const;
  /// Operand values, in order, null where absent; resolved before the handler
  /// runs. Counts as a read of all of them.
  llvm::SmallVector<Tensor> operands();
  /// The ONNX data type of an operand if values do not have it, else 0 (Narrow.cpp).
  int32_t narrow(int operand) const { return operand < int(in.size()) ? in[operand].narrow : 0; }
  Tensor input(int operand);
  /// Returns what an operand is, or only a sequence; null if it is absent.
  const Binding *operand(int operand) const;
  const Binding *sequence(int operand) const;
  /// Fails, with an error, unless operands [0, count) are present.
  mlir::LogicalResult require(int count);
  /// Sets what the node has for the needs of its operator, before the handler runs.
  void setMet(MetNeeds needs) { met = std::move(needs); }
  /// The members of MetNeeds.
  const Sizes &ints(int operand) const { return met.ints[operand]; }
  const std::optional<Sizes> &list() const { return met.list; }
  int64_t axis() const { return met.axis; }
  double epsilon() const { return met.epsilon; }
  /// The only element of an operand that must be a constant of integers; `missing`, if given, where
  /// it is absent. If there are more or none, 0 after an error that says `what` it is.
  int64_t onlyInt(int operand, const char *what, std::optional<int64_t> missing = {});
  /// Appends the elements of an operand that must be a constant of integers.
  mlir::LogicalResult constantInts(int operand, llvm::SmallVectorImpl<int64_t> &values);
  std::optional<double> scalarConstant(mlir::Value value);
  /// Whether the handler has asked for an attribute or an operand, by its number in the file.
  bool hasReadAttribute(int attribute) const { return attributesRead[attribute]; }
  bool hasReadOperand(int operand) const { return operandsRead[operand]; }

  /// `narrow`: its ONNX data type, if values do not have it and the operands do not tell it.
  void set(int result, mlir::Value value, int32_t narrow = 0);
  void setSequence(int result, llvm::ArrayRef<mlir::Value> items);
  /// Takes what a handler returns: the only result, or whether it set the results.
  mlir::LogicalResult give(Tensor result);
  mlir::LogicalResult give(mlir::LogicalResult result) { return result; }

  // Building of ops. Every function folds, and returns null for operands that are null.

  template <typename OpT, typename... Args> Tensor create(mlir::Type result, Args &&...args) {
    return finish(OpT::create(builder, loc, result, std::forward<Args>(args)...));
  }
  Tensor finish(mlir::Operation *op);
  /// Sets the module scope of an op with several results.
  void adopt(mlir::Operation *op);
  Tensor constant(mlir::RankedTensorType type, double value);
  Tensor constant(llvm::ArrayRef<int64_t> values);
  Tensor constant(mlir::DenseElementsAttr values);
  /// Returns the index of each element along a dimension. The default type is i64.
  Tensor iota(llvm::ArrayRef<int64_t> shape, int64_t dim, mlir::Type element = {});

private:
  void noteRead(int operand) const;
  void bind(int result, Binding binding);
  Refused fail(const std::string &message);
  const AttributeProto *typedAttribute(llvm::StringRef name, bool (AttributeProto::*is)() const,
                                       const char *type);

  const llvm::SmallVector<Binding> in;
  llvm::SmallBitVector attributesRead;
  mutable llvm::SmallBitVector operandsRead;
  MetNeeds met;
  bool failedOnce = false;
};

/// Called after the handler. Fails, with an error, if an attribute or operand is there that the
/// handler did not ask for, and that can change the result (Unread.cpp), or if the operator lacks
/// the attribute in the file's operator set.
mlir::LogicalResult requireAllRead(Node &node);

template <typename OpT> Tensor unary(Tensor x) {
  return x ? x.node().create<OpT>(x.getType(), x) : x;
}
/// Broadcasts both operands, then applies OpT.
template <typename OpT> Tensor binary(Operand lhs, Operand rhs) {
  if (failed(match(lhs, rhs)))
    return {};
  return lhs.value.node().create<OpT>(lhs.value.getType(), lhs.value, rhs.value);
}

/// Calls a handler with the operands that it takes, after `first` ones.
template <typename HandlerT, typename... First>
auto callHandler(const HandlerT &handler, Node &node, First... first) {
  static_assert(sizeof...(First) < 5, "a handler takes the node, operands, or both");
  if constexpr (std::is_invocable_v<HandlerT, Node &, First...>)
    return handler(node, first...);
  else if constexpr (std::is_invocable_v<HandlerT, First...>)
    return handler(first...);
  else
    return callHandler(handler, node, first..., node.input(sizeof...(First)));
}

template <typename HandlerT>
void HandlerRegistry::add(llvm::StringRef domain, llvm::StringRef type, int64_t since,
                          HandlerT handler, Needs needs) {
  auto import = [handler](Node &node) { return node.give(callHandler(handler, node)); };
  table[(domain + "::" + type).str()][since] = {import, needs};
}

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_NODE_H
