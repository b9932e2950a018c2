//===- Importer.h - State of one import, and what op handlers see ---------===//
#ifndef SHALE_FRONTEND_ONNX_IMPORTER_H
#define SHALE_FRONTEND_ONNX_IMPORTER_H

#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/Import.h"
#include "lib/Frontend/ONNX/Model.h"
#include "lib/Frontend/ONNX/Parameters.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace shale::onnx {

class Importer;
class Node;

/// Translates one node. Returns failure after an error on it.
using Handler = mlir::LogicalResult (*)(Node &);

/// Handlers by (domain, type), each from a version of its operator set on.
class HandlerRegistry {
public:
  /// The domain of standard operators is "".
  void add(llvm::StringRef domain, llvm::StringRef type, int64_t since,
           Handler handler) {
    table[(domain + "::" + type).str()][since] = handler;
  }
  /// The newest handler whose version is not above `version`; null if none.
  Handler find(llvm::StringRef domain, llvm::StringRef type,
               int64_t version) const;

private:
  llvm::StringMap<std::map<int64_t, Handler>> table;
};

/// All handlers: one family of ops per file of Ops/.
const HandlerRegistry &getHandlers();

/// What a name of the graph stands for.
struct Binding {
  mlir::Value value;                    // a tensor
  llvm::SmallVector<mlir::Value> items; // or a sequence of tensors
  bool isSequence = false;
};

/// The names, operator sets and attributes that nodes of a graph or function
/// see.
struct Scope {
  llvm::StringMap<Binding> values;
  llvm::StringMap<int64_t> opsets;
  llvm::StringMap<const AttributeProto *> attributes; // of the function's call
  std::string path;                                   // of calls, for messages
  const NodeProto *outerNode = nullptr;
};

/// A tensor that is no parameter and has at most this many bytes is a constant.
inline constexpr int64_t kConstantLimit = int64_t(16) << 20;
inline constexpr int64_t kMaxNodes = 1000000;
inline constexpr int kMaxCallDepth = 100;

/// "ai.onnx" is another name of the standard operators' domain.
inline llvm::StringRef domainOf(llvm::StringRef domain) {
  return domain == "ai.onnx" ? "" : domain;
}

/// What the nodes of a function see before its operands are bound.
Scope functionScope(const FunctionProto &function, const Scope &caller);

/// Makes bf16 and f16 values f32, if there are any: the types in which a step
/// computes are a flag's, not the file's. The module's attribute
/// `nn.file_type` remembers what the file has, if that is most of it.
/// Initial values keep their type in the file.
void widenHalves(mlir::ModuleOp module);

/// A loss as a sum over a count.
struct LossParts {
  mlir::Value sum, count;
  mlir::Value labels = {}, logits = {}; // of the cross-entropy
};

/// nn.cross_entropy of logits [N, V] and labels [N].
LossParts buildCrossEntropy(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value logits, mlir::Value labels,
                            int64_t ignore);
/// sum / max(count, 1)
mlir::Value buildMean(mlir::OpBuilder &builder, mlir::Location loc,
                      const LossParts &parts);

/// Emits a note that belongs to no other diagnostic: shown, unlike a remark, and no warning. MLIR has no function for it.
void emitNote(mlir::Location location, const llvm::Twine &message);

class Importer {
public:
  Importer(Model &model, const ImportOptions &options,
           mlir::MLIRContext *context);

  mlir::OwningOpRef<mlir::ModuleOp> run();
  int getExitCode() const { return exitCode; }

  // ---- what nodes and helpers use
  mlir::OpBuilder builder;
  /// The constant behind a value, computed if it can be; null otherwise.
  mlir::DenseElementsAttr constantOf(mlir::Value value);
  /// Replaces an op on constants by its result, when it has one and it fits;
  /// fails, after an error, when it would not fit.
  mlir::FailureOr<mlir::Value> fold(mlir::Operation *op);
  mlir::InFlightDiagnostic error(const llvm::Twine &message, int code = 65);
  /// A tensor of an attribute, small enough for a constant.
  llvm::Expected<mlir::DenseElementsAttr>
  readConstant(const TensorProto &tensor);
  /// What to say where `wants` positions meet the `has` that the model has,
  /// by the values that have them: which --dim is too large. Empty where no
  /// dimension has about that size.
  std::string positionsHint(llvm::ArrayRef<mlir::Value> tables, int64_t has,
                            int64_t wants);
  std::string broadcastHint(llvm::ArrayRef<mlir::Value> values, int64_t one,
                            int64_t other);
  /// Losses that are known to be a sum over a count.
  llvm::DenseMap<mlir::Value, LossParts> lossParts;
  /// Results of LogSoftmax over the last dimension, with their operand.
  llvm::DenseMap<mlir::Value, mlir::Value> logSoftmaxOf;

  /// The scalar of that role, an argument that random ops draw from.
  mlir::Value randomArgument(nn::Role role);
  /// A number for each random op, in the order of the graph.
  int64_t takeRandomId() { return randomOps++; }

private:
  friend class Node;
  mlir::DenseElementsAttr compactOf(mlir::Value value);
  mlir::DenseElementsAttr compute(mlir::Operation *op, mlir::RankedTensorType result,
                                  llvm::ArrayRef<mlir::DenseElementsAttr> operands);
  mlir::DenseElementsAttr computeCompact(mlir::Operation *op);
  mlir::FailureOr<mlir::Value> replaceFolded(mlir::Operation *op, mlir::DenseElementsAttr attr);
  void refuse(int64_t bytes);

  struct Input {
    std::string name;
    mlir::RankedTensorType type;
    std::optional<int64_t> batchDim;
    bool isLabel = false;
    std::string binding = {};
    mlir::BlockArgument argument = {};
    std::optional<nn::Role> role = {}; // of what is no input of the graph
    std::string sizes = {};            // "batch=4, 64": as the file has them
    bool isFixed = false;              // dimension 0 has its size from the file
    bool folded = false; // all ones, and known to be: nothing reads the argument
  };

  mlir::LogicalResult checkModel();
  mlir::LogicalResult chooseLoss();
  mlir::LogicalResult findNeeded();
  mlir::LogicalResult checkSupported();
  mlir::LogicalResult declareInputs();
  mlir::LogicalResult declareStates();
  /// Notes on the module which buffers the model's state_dict has.
  void describeBuffers();
  mlir::LogicalResult importNodes();
  mlir::LogicalResult importNode(const NodeProto &node, Scope &scope,
                                 int depth);
  /// The value `name` of an operation that the exporter merged with another one.
  mlir::FailureOr<mlir::Value> mergedValue(size_t number, llvm::StringRef name, Scope &scope);
  mlir::LogicalResult callFunction(const FunctionProto &function, Node &node,
                                   int depth);
  /// Fails where a gradient would pass what PyTorch lets none through.
  mlir::LogicalResult checkStops();
  mlir::LogicalResult finish();
  mlir::LogicalResult makeLoss(mlir::Value &loss, LossParts &parts);
  mlir::LogicalResult bindInputs(const LossParts &parts);
  mlir::LogicalResult bindLabels(const LossParts &parts);
  mlir::LogicalResult chooseBatch();
  Input *inputOf(mlir::BlockArgument argument);
  std::string listInputs(llvm::function_ref<bool(const Input &)> which);
  mlir::FailureOr<mlir::Value> resolve(const NodeProto &node, int operand,
                                       Scope &scope);
  mlir::FailureOr<mlir::Value> output(llvm::StringRef name);
  mlir::FailureOr<int64_t> addInput(llvm::StringRef name,
                                    mlir::RankedTensorType type,
                                    std::optional<int64_t> batchDim);
  const FunctionProto *findFunction(const NodeProto &node) const;
  int64_t opsetOf(const NodeProto &node, const Scope &scope) const;
  void collectUnsupported(const NodeProto &node, const Scope &scope, int depth);
  mlir::Location locationOf(const NodeProto &node);
  mlir::Location fileLocation();
  /// Tells what was chosen; shown without being asked for.
  void note(const llvm::Twine &message);
  void setScope(mlir::Operation *op);
  std::string scopeName(llvm::StringRef module);

  Model &model;
  const ImportOptions &options;
  mlir::MLIRContext *context;
  int exitCode = 65;
  bool failed = false;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Block *body = nullptr;
  Parameters parameters;
  std::vector<Input> inputs;
  std::vector<size_t> stateOrder;       // indices into parameters.list
  std::vector<mlir::Value> stateValues; // by index into parameters.list
  std::vector<llvm::StringMap<mlir::Value>> mergedValues; // by index into parameters.merged and name
  /// The merged operation whose nodes are imported now.
  const MergedOperation *merging = nullptr;
  Scope root;
  llvm::StringMap<const TensorProto *> initializers;
  llvm::StringMap<const FunctionProto *> functions;
  llvm::DenseSet<const NodeProto *> needed;
  std::string lossName, lossKind, logitsName, labelsName;
  std::string bindingNote;
  /// Of the module whose node is imported, "" the model's own; none: not known.
  std::optional<std::string> currentScope;
  llvm::StringMap<std::string> classes; // of module scopes
  std::string currentNode;
  const NodeProto *current = nullptr;
  int64_t foldedBytes = 0, nodeCount = 0, randomOps = 0;
  llvm::DenseMap<mlir::Operation *, mlir::DenseElementsAttr> computed;
  /// Results by op, properties and operands.
  std::map<std::vector<const void *>, mlir::DenseElementsAttr> answers;
  /// Folded constants whose bytes are counted.
  std::set<const void *> counted;
  struct Unsupported {
    std::string node, place;
    int64_t count = 0;
  };
  llvm::MapVector<std::string, Unsupported, std::map<std::string, unsigned>>
      unsupported;
  llvm::StringSet<> visitedFunctions;
};

/// One node while it is translated: its operands, attributes and results.
class Node {
public:
  Node(Importer &importer, const NodeProto &proto, Scope &scope,
       int64_t version);

  Importer &importer;
  mlir::OpBuilder &builder;
  const NodeProto &proto;
  Scope &scope;
  const int64_t version; // of the operator set
  mlir::Location loc;

  mlir::LogicalResult error(const llvm::Twine &message);

  // ---- operands
  int numInputs() const { return proto.input_size(); }
  int numOutputs() const { return proto.output_size(); }
  bool has(int operand) const {
    return operand < proto.input_size() && !proto.input(operand).empty();
  }
  bool wants(int result) const {
    return result < proto.output_size() && !proto.output(result).empty();
  }
  /// Operand values, in order, null where absent; resolved before the handler
  /// runs.
  llvm::SmallVector<mlir::Value> in;
  mlir::Value input(int operand) const {
    return operand < int(in.size()) ? in[operand] : mlir::Value();
  }
  static mlir::RankedTensorType type(mlir::Value value) {
    return llvm::cast<mlir::RankedTensorType>(value.getType());
  }
  /// Fails after an error unless operands [0, count) are there.
  mlir::LogicalResult require(int count);
  /// An operand that must be a constant of integers.
  mlir::LogicalResult constantInts(int operand,
                                   llvm::SmallVectorImpl<int64_t> &values);
  std::optional<double> scalarConstant(mlir::Value value);

  // ---- attributes; of another kind than asked for: an error later
  const AttributeProto *attribute(llvm::StringRef name);
  int64_t intAttr(llvm::StringRef name, int64_t missing);
  double floatAttr(llvm::StringRef name, double missing);
  std::string stringAttr(llvm::StringRef name, llvm::StringRef missing);
  std::optional<llvm::SmallVector<int64_t>> intsAttr(llvm::StringRef name);
  bool attributesAreBad() const { return badAttributes; }

  /// A dimension counted from the end if negative; fails after an error.
  mlir::LogicalResult normalize(int64_t &axis, int64_t rank);
  mlir::LogicalResult normalizeAll(llvm::SmallVectorImpl<int64_t> &axes,
                                   int64_t rank);

  // ---- results
  void set(int result, mlir::Value value);
  void setSequence(int result, llvm::SmallVector<mlir::Value> items);
  const Binding *sequence(int operand) const;

  // ---- building; every function folds and returns null after an error
  template <typename OpT, typename... Args>
  mlir::Value create(mlir::Type result, Args &&...args) {
    return finish(
        OpT::create(builder, loc, result, std::forward<Args>(args)...));
  }
  mlir::Value finish(mlir::Operation *op);
  /// Gives the module scope to an op of several results.
  void adopt(mlir::Operation *op);
  mlir::Value constant(mlir::RankedTensorType type, double value);
  mlir::Value constant(llvm::ArrayRef<int64_t> values);
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> perm);
  /// numpy's rule: trailing dimensions are aligned.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::LogicalResult broadcastShape(llvm::ArrayRef<mlir::Value> values,
                                     llvm::SmallVectorImpl<int64_t> &shape);
  mlir::Value slice(mlir::Value value, llvm::ArrayRef<int64_t> starts,
                    llvm::ArrayRef<int64_t> limits,
                    llvm::ArrayRef<int64_t> strides);
  mlir::Value cast(mlir::Value value, mlir::Type element);
  mlir::Value reduce(nn::ReduceKind kind, mlir::Value value,
                     llvm::ArrayRef<int64_t> dims, bool keepDims);
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
      (void)error("operands have element types " +
                  name(type(lhs).getElementType()) + " and " +
                  name(type(rhs).getElementType()));
      return {};
    }
    lhs = broadcast(lhs, shape);
    rhs = broadcast(rhs, shape);
    return lhs && rhs ? create<OpT>(lhs.getType(), lhs, rhs) : mlir::Value();
  }
  mlir::Value binary(mlir::Value lhs, mlir::Value rhs, nn::Predicate predicate);
  mlir::Value matmul(mlir::Value lhs, mlir::Value rhs,
                     bool transposeLhs = false, bool transposeRhs = false);

  static std::string name(mlir::Type type);
  bool hasFailed() const { return failedOnce; }

private:
  bool badAttributes = false;
  bool failedOnce = false;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_IMPORTER_H
