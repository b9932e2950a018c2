//===- Importer.h - State of an import and interface of op handlers -------===//
#ifndef SHALE_FRONTEND_ONNX_IMPORTER_H
#define SHALE_FRONTEND_ONNX_IMPORTER_H

#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/Import.h"
#include "lib/Frontend/ONNX/Model.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Parameters.h"
#include "lib/Frontend/ONNX/Training/FileTraining.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace shale::onnx {

struct Artifacts;

/// The value of a name in the graph.
struct Binding {
  mlir::Value value;                    // a tensor
  llvm::SmallVector<mlir::Value> items; // or a sequence of tensors
  bool isSequence = false;
  int32_t narrow = 0; // the ONNX data type if values do not have it (Narrow.h)
};

/// The names, operator sets and attributes that are visible to the nodes of a
/// graph or function.
struct Scope {
  llvm::StringMap<Binding> values;
  /// The scope around a subgraph; null for the model's graph and for functions.
  Scope *outer = nullptr;
  llvm::StringMap<int64_t> opsets;
  llvm::StringMap<const AttributeProto *> attributes; // of the function's call
  llvm::StringSet<> absent; // inputs of a function that its call leaves out
  std::string path;         // of calls, for messages
  const NodeProto *outerNode = nullptr;

  /// Returns the value of a name here or in a scope around; null if there is none.
  const Binding *find(llvm::StringRef name) const;
};

/// Calls `visit` for each operand of a node, and of the nodes in its subgraphs that is defined
/// outside of these.
void forEachRead(const NodeProto &node, llvm::function_ref<void(const NodeProto &, int)> visit);
/// Calls `visit` for each name that a node or its subgraphs read and do not define themselves.
void forEachNameRead(const NodeProto &node, llvm::function_ref<void(llvm::StringRef)> visit);

/// Calls `visit` for each name that a graph defines: its inputs, its initializers and its nodes'
/// results, which may be empty.
void forEachDefined(const GraphProto &graph, llvm::function_ref<void(llvm::StringRef)> visit);

/// A tensor that is not a parameter and has at most this many bytes is a constant.
inline constexpr int64_t kConstantLimit = int64_t(16) << 20;
inline constexpr int64_t kMaxNodes = 1000000;
/// Bytes of constants in bodies of loops that count as one node.
inline constexpr int64_t kBytesOfNode = 4096;
inline constexpr int kMaxCallDepth = 100;

/// "ai.onnx" is another name of the standard operators' domain.
inline llvm::StringRef domainOf(llvm::StringRef domain) {
  return domain == "ai.onnx" ? "" : domain;
}

/// Returns the scope of a function's nodes before its operands are bound.
Scope functionScope(const FunctionProto &function, const Scope &caller);

/// Converts bf16 and f16 values to f32: a flag, not the file, chooses the types in
/// which a step computes. The module attribute `nn.file_type` records the file's
/// 16-bit float type if most of the model has it. Initial values keep their type
/// in the file.
void widen16BitFloats(mlir::ModuleOp module);

/// A loss as a sum over a count.
struct LossParts {
  mlir::Value sum, count;
  mlir::Value labels = {}, logits = {}; // of the cross-entropy
  /// Whether the labels were found in a loss that is written out: they may be something else.
  bool isGuess = false;
};

/// Builds nn.cross_entropy of logits [N, V] and labels [N].
LossParts buildCrossEntropy(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value logits,
                            mlir::Value labels, int64_t ignore);
/// Writes `loss` as a mean over `count`, with the divisor of `mean`, which is a mean over it: the
/// sum is the loss times that divisor. Replaces `loss` by the quotient.
LossParts asMean(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value &loss, mlir::Value mean,
                 mlir::Value count);
/// Builds sum / max(count, 1).
mlir::Value buildMean(mlir::OpBuilder &builder, mlir::Location loc, const LossParts &parts);

/// Emits a note that is attached to no other diagnostic. It is shown by default, unlike a remark,
/// and is no warning. MLIR has no function for this.
void emitNote(mlir::Location location, const llvm::Twine &message);

/// Calls `visit` once on a value and on those that it is computed from, the nearest first. Where it
/// returns false, the values behind are left out.
void walkBack(mlir::Value value, llvm::function_ref<bool(mlir::Value)> visit);

class Importer {
public:
  /// `artifacts`: the other files of a folder, or null.
  Importer(Model &model, const ImportOptions &options, mlir::MLIRContext *context,
           const Artifacts *artifacts = nullptr);

  mlir::OwningOpRef<mlir::ModuleOp> run();
  int getExitCode() const { return exitCode; }

  // ---- used by nodes and helpers
  mlir::OpBuilder builder;
  /// Returns the value as a constant, computed if possible; null otherwise.
  mlir::DenseElementsAttr constantOf(mlir::Value value);
  /// Replaces an op on constants by its result, if it can be computed and is not
  /// larger than the fold limit.
  mlir::Value fold(mlir::Operation *op);
  mlir::InFlightDiagnostic error(const llvm::Twine &message, int code = 65);
  /// Emits an error on a node of the file, whatever is imported now. Converts to failure.
  mlir::InFlightDiagnostic errorAt(const NodeProto &node, const llvm::Twine &message,
                                   int code = 65);
  /// Imports a node that reads values of `scope`.
  mlir::LogicalResult importNode(const NodeProto &node, Scope &scope, int depth);
  /// Reads a tensor of an attribute; fails if it exceeds kConstantLimit.
  llvm::Expected<mlir::DenseElementsAttr> readConstant(const TensorProto &tensor);
  /// Returns a hint for an error about `wants` positions where the model has
  /// `has`: which --dim is too large. `tables` are the values with `has`
  /// positions. Empty if no dimension has about that size.
  std::string positionsHint(llvm::ArrayRef<mlir::Value> tables, int64_t has, int64_t wants);
  std::string broadcastHint(llvm::ArrayRef<mlir::Value> values, int64_t one, int64_t other);
  /// Imports the nodes of a graph in an attribute of `node` and returns its outputs. `what` names
  /// it in errors.
  mlir::FailureOr<llvm::SmallVector<Binding>> importGraph(Node &node, const GraphProto &graph,
                                                          llvm::StringRef what,
                                                          llvm::ArrayRef<Binding> inputs);
  /// Losses that are known to be a sum over a count.
  llvm::DenseMap<mlir::Value, LossParts> lossParts;
  /// Results of LogSoftmax over the last dimension, with their operand.
  llvm::DenseMap<mlir::Value, mlir::Value> logSoftmaxOf;

  /// Returns the scalar argument of that role, from which random ops draw; null
  /// after an error.
  mlir::Value randomArgument(nn::Role role);
  /// The ratio that the user gives for all dropouts, if any.
  std::optional<double> dropoutRatio() const { return options.dropout; }
  bool isFromPyTorch() const;
  /// Whether a node or an output of the model's graph reads a name.
  bool isRead(llvm::StringRef name);
  /// The ratio of a dropout of operand 0 of a MatMul, which the export left out; none of other
  /// nodes.
  std::optional<double> lostDropoutOf(const NodeProto &node) const {
    auto found = lostDropout.find(&node);
    return found == lostDropout.end() ? std::nullopt : std::optional(found->second);
  }
  /// Returns the next number for a random op; they count in graph order.
  int64_t takeRandomId() { return randomOps++; }

private:
  friend class Node;
  mlir::DenseElementsAttr compactOf(mlir::Value value);
  /// The size of an op's result if factors of its sharding rule have size 1, and these factors, as
  /// if each was split by an axis of its size.
  struct Reduced {
    mlir::RankedTensorType result;
    llvm::SmallVector<llvm::SmallVector<SplitAxis, 2>> axes;
  };
  mlir::DenseElementsAttr compute(mlir::Operation *op, const Reduced &reduced,
                                  llvm::ArrayRef<mlir::DenseElementsAttr> operands);
  mlir::DenseElementsAttr computeCompact(mlir::Operation *op, bool &tooLarge);
  mlir::Value replaceFolded(mlir::Operation *op, mlir::DenseElementsAttr attr);

  struct Input {
    std::string name;
    mlir::RankedTensorType type;
    std::optional<int64_t> batchDim;
    bool isLabel = false;
    std::string binding = {};
    mlir::BlockArgument argument = {};
    std::optional<nn::Role> role = {}; // set if it is not an input of the graph
    std::string sizes = {};            // "batch=4, 64": names as in the file
    bool isFixed = false;              // the file fixes the size of dimension 0
    bool folded = false;               // replaced by a constant of ones: no readers left
  };

  mlir::LogicalResult checkModel();
  mlir::LogicalResult checkOpsets();
  /// Adds to the graph what other parts of the file, or other files of the folder, bring.
  mlir::LogicalResult completeGraph();
  /// Takes the loss of the training step that the file defines; if it defines none, chooses one.
  mlir::LogicalResult readTraining();
  /// Fails if a flag contradicts the file's training step.
  mlir::LogicalResult checkTrainingFlags();
  void setOptimizer();
  mlir::LogicalResult chooseLoss();
  /// Returns the names that the loss and the gradients are computed from.
  llvm::SmallVector<llvm::StringRef> roots() const;
  mlir::LogicalResult findNeeded();
  /// Finds the dropouts of attention that an export left out.
  mlir::LogicalResult findLostDropout();
  mlir::LogicalResult checkSupported();
  mlir::LogicalResult declareInputs();
  mlir::LogicalResult declareStates();
  /// Records in the module's `nn.buffers` which buffers the state_dict has.
  void describeBuffers();
  /// Fails, with an error, if the loss depends on a buffer that the module changes in its forward
  /// pass, other than by a running statistic: the file has only its first value.
  mlir::LogicalResult checkChangedBuffers();
  /// Fails, with an error, if the loss may depend on such a value by what the exporter removed.
  mlir::LogicalResult checkRemovedReads(const llvm::StringMap<std::string> &made);
  mlir::LogicalResult importNodes();
  /// Counts nodes, with functions and loops unrolled. Fails, with an error, if there are too many.
  mlir::LogicalResult countWork(int64_t nodes);
  /// Builds the function of a value that a node reads, in the node's scope.
  mlir::FailureOr<mlir::Value> restoredValue(const NodeProto &node, const Expression &expression,
                                             llvm::SmallVector<mlir::Value> inputs,
                                             llvm::ArrayRef<size_t> others,
                                             mlir::RankedTensorType type);
  /// Returns value `name` of merged operation `number`, and imports its nodes
  /// again on first use.
  mlir::FailureOr<mlir::Value> mergedValue(size_t number, llvm::StringRef name, Scope &scope);
  mlir::LogicalResult callFunction(const FunctionProto &function, Node &node, int depth);
  /// Fails if a gradient would flow where PyTorch stops it.
  mlir::LogicalResult checkStops();
  /// Returns the first node that may read another gradient than the file has: PyTorch's exporter
  /// removes x.detach(), and merges f(x) with f(x.detach()). Sets `why`.
  const NodeProto *findMergedRead(llvm::function_ref<bool(llvm::StringRef)> isVaried,
                                  std::string &why);
  /// In a file without a list of its parameters: marks those that no gradient of the loss reaches
  /// (a mask, a table) as not trained, with a remark.
  void freezeUnreached(mlir::Value loss);
  mlir::LogicalResult finish();
  /// Builds the loss. Appends the labels and logits of its terms to `labeled`.
  mlir::LogicalResult makeLoss(mlir::Value &loss, LossParts &parts);
  mlir::FailureOr<LossParts> readLoss(llvm::StringRef name, mlir::Value &loss);
  mlir::FailureOr<LossParts> buildLoss(mlir::Value &loss);
  mlir::FailureOr<mlir::Value> labelsOf(mlir::RankedTensorType output);
  /// Finds the sum and the count of a loss that is written out, and its labels. Returns the loss
  /// itself over 1 if it is no mean over data. May replace `loss`, a scalar, by an equal value.
  LossParts recognizeLoss(mlir::Value &loss);
  /// Whether a value is a sum that depends on inputs, and on no parameter.
  bool isCountOfData(mlir::Value value) const;
  /// Sets the labels and logits that are nearest to the loss, if there are any.
  void findLabels(mlir::Value loss, LossParts &parts) const;
  mlir::LogicalResult parseLossOutputs();
  mlir::LogicalResult parseLossForm();
  mlir::LogicalResult bindInputs();
  mlir::LogicalResult bindLabels(const LossParts &parts);
  /// Finds the outputs that may be gradients of parameters.
  mlir::LogicalResult findGradientOutputs();
  bool isGradientOutput(llvm::StringRef name) const;
  std::optional<size_t> parameterNamed(llvm::StringRef name) const;
  /// Matches these outputs with the parameters, once these are declared.
  mlir::LogicalResult matchGradients();
  /// Appends the value of each gradient, of its parameter's type.
  mlir::LogicalResult readGradients(llvm::SmallVectorImpl<mlir::Value> &results);
  mlir::LogicalResult chooseBatch();
  Input *inputOf(mlir::BlockArgument argument);
  std::string listInputs(llvm::function_ref<bool(const Input &)> which);
  mlir::FailureOr<mlir::Value> resolve(const NodeProto &node, int operand, Scope &scope);
  mlir::FailureOr<mlir::Value> resolvePlain(const NodeProto &node, int operand, Scope &scope);
  bool isInModel(const Scope &scope) const;
  /// Records the types of results that values do not have, and reduces these to them.
  mlir::LogicalResult finishNarrow(Node &node);
  mlir::Value parameterIn(const TensorProto &tensor, const NodeProto &node);
  mlir::FailureOr<mlir::Value> output(llvm::StringRef name);
  mlir::FailureOr<int64_t> addInput(llvm::StringRef name, mlir::RankedTensorType type,
                                    std::optional<int64_t> batchDim);
  const FunctionProto *findFunction(const NodeProto &node) const;
  int64_t opsetOf(const NodeProto &node, const Scope &scope) const;
  void collectUnsupported(const NodeProto &node, const Scope &scope, int depth);
  mlir::Location locationOf(const NodeProto &node);
  mlir::Location fileLocation();
  /// Emits a note about a choice; shown by default.
  void note(const llvm::Twine &message);
  void setScope(mlir::Operation *op);
  std::string scopeName(llvm::StringRef module);
  std::optional<std::string> findScope(const NodeProto &node);

  Model &model;
  const ImportOptions &options;
  mlir::MLIRContext *context;
  const Artifacts *artifacts;
  int exitCode = 65;
  bool failed = false;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::Block *body = nullptr;
  Parameters parameters;
  std::optional<FileTraining> training; // if the file defines the training step
  std::vector<Input> inputs;
  std::vector<size_t> stateOrder;       // indices into parameters.list
  std::vector<mlir::Value> stateValues; // by index into parameters.list
  std::vector<llvm::StringMap<mlir::Value>>
      mergedValues; // by index into parameters.merged and name
  /// The merged operation whose nodes are imported now.
  const MergedOperation *merging = nullptr;
  Scope root;
  llvm::StringMap<const TensorProto *> initializers;
  llvm::StringMap<const FunctionProto *> functions;
  llvm::DenseSet<const NodeProto *> needed;
  /// An output that is the loss, or a term of it.
  struct LossTerm {
    std::string output;
    double weight = 1;
  };
  std::vector<LossTerm> lossTerms;
  std::string lossKind, logitsName, labelsName; // of --loss
  std::vector<LossParts> labeled;               // the terms of the loss that have labels
  struct GradientOutput {
    std::string target, output;
    enum From { Flag, Signature, Name, Word } from;
  };
  std::vector<GradientOutput> gradientOutputs;
  /// Indices into parameters.list, and the outputs that are the gradients.
  std::vector<std::pair<size_t, std::string>> gradients;
  llvm::DenseMap<const NodeProto *, double> lostDropout;
  llvm::StringSet<> namesRead; // of isRead, filled at its first call
  std::string bindingNote;
  /// Scope of the module whose node is being imported; "" for the model itself,
  /// none if unknown.
  std::optional<std::string> currentScope;
  /// Whether nodes take the scope of the parameter that was read last: a graph of forward and
  /// backward whose nodes name no modules.
  bool scopesAreLost = false;
  std::string lastScope;                // of the parameter that was read last
  llvm::StringMap<std::string> classes; // of module scopes
  std::string currentNode;
  const NodeProto *current = nullptr;
  int64_t foldedBytes = 0, nodeCount = 0, randomOps = 0;
  llvm::DenseMap<mlir::Operation *, mlir::DenseElementsAttr> computed;
  /// Cached results by op, properties, result type and operands.
  std::map<std::vector<const void *>, mlir::DenseElementsAttr> answers;
  /// Folded constants that `foldedBytes` includes already.
  std::set<const void *> counted;
  struct Unsupported {
    std::string node, place;
    int64_t count = 0;
  };
  llvm::MapVector<std::string, Unsupported, std::map<std::string, unsigned>> unsupported;
  llvm::StringSet<> visitedFunctions;
  /// Initializers of subgraphs for which a remark was emitted.
  llvm::DenseSet<const TensorProto *> remarked;
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_IMPORTER_H
