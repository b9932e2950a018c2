//===- Node.h - Interface of op handlers ----------------------------------===//
//
// A handler translates one node of an ONNX graph to ops. Handlers register under
// domain, operator and operator set. This header does not include the messages of
// the file format, so that a plug-in builds without protobuf.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_FRONTEND_ONNX_NODE_H
#define SHALE_FRONTEND_ONNX_NODE_H

#include "dialects/nn/NN.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <map>
#include <optional>
#include <string>

namespace shale::onnx {

class AttributeProto;
struct Binding;
class Building;
class Node;
class NodeProto;
struct Scope;

/// Translates one node. Returns failure after an error on it.
using Handler = mlir::LogicalResult (*)(Node &);

/// Handlers by (domain, type), each from a version of its operator set on.
class HandlerRegistry {
public:
  /// The domain of standard operators is "".
  void add(llvm::StringRef domain, llvm::StringRef type, int64_t since, Handler handler) {
    table[(domain + "::" + type).str()][since] = handler;
  }
  /// Adds the handlers of another registry. Adds none and fails if an operator of it has handlers
  /// here.
  llvm::Error merge(const HandlerRegistry &other);
  /// Returns the newest handler whose version is not above `version`; null if
  /// none.
  Handler find(llvm::StringRef domain, llvm::StringRef type, int64_t version) const;

private:
  llvm::StringMap<std::map<int64_t, Handler>> table;
};

/// All handlers: one family of ops per file of Ops/, and those of plug-ins. Plug-ins add theirs
/// before the first import.
HandlerRegistry &getHandlers();

/// The operands of a node.
struct Operands {
  llvm::SmallVector<mlir::Value> values; // in order, null where absent
  /// The ONNX data types of operands that values do not have, 0 for others (Narrow.h).
  llvm::SmallVector<int32_t> narrowTypes;
};

/// A node of the file, where it is, and errors on it.
class NodePlace {
public:
  /// `depth`: of calls and subgraphs around it.
  NodePlace(Building &building, const NodeProto &proto, Scope &scope, int depth);

  /// The services that the handler may use beside the node.
  Building &building;
  mlir::OpBuilder &builder;
  const NodeProto &proto;
  Scope &scope;
  const int64_t version; // of the operator set
  const int depth;
  mlir::Location loc;

  mlir::LogicalResult error(const llvm::Twine &message);
  bool hasFailed() const { return failedOnce; }
  /// The operation that PyTorch's exporter wrote the node for, "aten.clamp.Tensor", and empty for
  /// other nodes. Where an operator of ONNX stands for several, it selects the gradient at ties.
  std::string tracedAs() const;
  /// Whether PyTorch wrote the file.
  bool isFromPyTorch() const;

  /// Whether the value is a parameter or buffer itself.
  bool isState(mlir::Value value) const;
  /// Returns the name of a parameter that the value is computed from, without a stop of gradients
  /// between the two; empty if there is none.
  std::string parameterBehind(mlir::Value value) const;

  static mlir::RankedTensorType type(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType());
  }
  static std::string name(mlir::Type type);

protected:
  /// Notes an error that was emitted by another function.
  void noteFailure() { failedOnce = true; }

private:
  bool failedOnce = false;
};

/// Attributes; a scalar of the wrong type is an error and fails the node.
class NodeAttributes : public NodePlace {
public:
  using NodePlace::NodePlace;

  const AttributeProto *attribute(llvm::StringRef name);
  int64_t intAttr(llvm::StringRef name, int64_t missing);
  /// A yes or no, which is 0 or 1 in the file.
  bool flagAttr(llvm::StringRef name, bool missing);
  double floatAttr(llvm::StringRef name, double missing);
  std::string stringAttr(llvm::StringRef name, llvm::StringRef missing);
  std::optional<llvm::SmallVector<int64_t>> intsAttr(llvm::StringRef name);
  bool attributesAreBad() const { return badAttributes; }

  /// Counts a negative axis from the end; fails, with an error, if out of range.
  mlir::LogicalResult normalize(int64_t &axis, int64_t rank);
  mlir::LogicalResult normalizeAll(llvm::SmallVectorImpl<int64_t> &axes, int64_t rank);

protected:
  /// Fails, with an error, if an attribute is there that attribute() was not asked for.
  mlir::LogicalResult requireAttributesRead();

private:
  /// The attribute, or that of the function call which it refers to; null if the call lacks it.
  const AttributeProto *resolved(const AttributeProto &attribute) const;

  llvm::SmallBitVector attributesRead;
  bool badAttributes = false;
};

/// Operands and results.
class NodeValues : public NodeAttributes {
public:
  NodeValues(Building &building, const NodeProto &proto, Scope &scope, int depth,
             Operands operands);

  int numInputs() const;
  int numOutputs() const;
  bool has(int operand) const;
  bool wants(int result) const;
  /// Whether another node reads the result, or it is an output: wants() only if it has a name.
  bool isRead(int result) const;
  /// Operand values, in order, null where absent; resolved before the handler
  /// runs. Counts as a read of all of them.
  llvm::ArrayRef<mlir::Value> operands() const;
  /// The ONNX data type of an operand if values do not have it, else 0 (Narrow.h).
  int32_t narrow(int operand) const {
    return operand < int(in.narrowTypes.size()) ? in.narrowTypes[operand] : 0;
  }
  mlir::Value input(int operand) const;
  const Binding *sequence(int operand) const;
  /// Fails, with an error, unless operands [0, count) are present.
  mlir::LogicalResult require(int count);
  /// The same, and they must have floats.
  mlir::LogicalResult requireFloats(int count);
  /// Fails, with an error, if the operand is absent or has truth values.
  mlir::LogicalResult requireNumbers(int operand);
  /// Appends the elements of an operand that must be a constant of integers.
  mlir::LogicalResult constantInts(int operand, llvm::SmallVectorImpl<int64_t> &values);
  std::optional<double> scalarConstant(mlir::Value value);
  /// Called after the handler. Fails, with an error, if an attribute or operand is there that the
  /// handler did not ask for, and that can change the result (Unread.cpp), or if the operator lacks
  /// the attribute in the file's operator set.
  mlir::LogicalResult requireAllRead();

  /// `narrow`: its ONNX data type, if values do not have it and the operands do not tell it.
  void set(int result, mlir::Value value, int32_t narrow = 0);
  void setSequence(int result, llvm::SmallVector<mlir::Value> items);

private:
  void noteRead(int operand) const;

  const Operands in;
  mutable llvm::SmallBitVector operandsRead;
};

/// Building of ops, and of movements of elements. Every function folds and returns null after an
/// error.
class NodeOps : public NodeValues {
public:
  using NodeValues::NodeValues;

  template <typename OpT, typename... Args> mlir::Value create(mlir::Type result, Args &&...args) {
    return finish(OpT::create(builder, loc, result, std::forward<Args>(args)...));
  }
  mlir::Value finish(mlir::Operation *op);
  /// Sets the module scope of an op with several results.
  void adopt(mlir::Operation *op);
  mlir::Value constant(mlir::RankedTensorType type, double value);
  mlir::Value constant(llvm::ArrayRef<int64_t> values);
  mlir::Value cast(mlir::Value value, mlir::Type element);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> perm);
  /// Broadcasts by numpy's rule: trailing dimensions are aligned.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::LogicalResult broadcastShape(llvm::ArrayRef<mlir::Value> values,
                                     llvm::SmallVectorImpl<int64_t> &shape);
  mlir::Value slice(mlir::Value value, llvm::ArrayRef<int64_t> starts,
                    llvm::ArrayRef<int64_t> limits, llvm::ArrayRef<int64_t> strides);
  /// Puts elements of 0 before and after dimensions, and between their elements.
  mlir::Value padded(mlir::Value value, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high,
                     llvm::ArrayRef<int64_t> interior);
  /// Appends elements of 0 at the ends of dimensions, to `shape`.
  mlir::Value padded(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Joins values, which differ only in the size of dimension `dim`.
  mlir::Value joined(llvm::ArrayRef<mlir::Value> parts, int64_t dim);
};

/// One node while it is translated: its operands, attributes and results, and arithmetic on them.
class Node : public NodeOps {
public:
  using NodeOps::NodeOps;

  template <typename OpT> mlir::Value unary(mlir::Value value) {
    return value ? create<OpT>(value.getType(), value) : mlir::Value();
  }
  /// Broadcasts both, then applies OpT.
  template <typename OpT> mlir::Value binary(mlir::Value lhs, mlir::Value rhs) {
    mlir::Value values[] = {lhs, rhs};
    llvm::SmallVector<int64_t> shape;
    if (!lhs || !rhs || mlir::failed(broadcastShape(values, shape)))
      return {};
    if (type(lhs).getElementType() != type(rhs).getElementType()) {
      (void)error("operands have element types " + name(type(lhs).getElementType()) + " and " +
                  name(type(rhs).getElementType()));
      return {};
    }
    lhs = broadcast(lhs, shape);
    rhs = broadcast(rhs, shape);
    return lhs && rhs ? create<OpT>(lhs.getType(), lhs, rhs) : mlir::Value();
  }
  mlir::Value binary(mlir::Value lhs, mlir::Value rhs, nn::Predicate predicate);
  mlir::Value reduce(nn::ReduceKind kind, mlir::Value value, llvm::ArrayRef<int64_t> dims,
                     bool keepDims);
  mlir::Value matmul(mlir::Value lhs, mlir::Value rhs, bool transposeLhs = false,
                     bool transposeRhs = false);
  /// Broadcast both, then compute.
  mlir::Value add(mlir::Value lhs, mlir::Value rhs);
  mlir::Value sub(mlir::Value lhs, mlir::Value rhs);
  mlir::Value mul(mlir::Value lhs, mlir::Value rhs);
  /// Functions of each element.
  mlir::Value cos(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value relu(mlir::Value x);
  mlir::Value sigmoid(mlir::Value x);
  mlir::Value sqrt(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_NODE_H
