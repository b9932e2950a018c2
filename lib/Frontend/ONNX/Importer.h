//===- Importer.h - State of an import and interface of op handlers -------===//
#ifndef SHALE_FRONTEND_ONNX_IMPORTER_H
#define SHALE_FRONTEND_ONNX_IMPORTER_H

#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/Fold.h"
#include "lib/Frontend/ONNX/Import.h"
#include "lib/Frontend/ONNX/Losses.h"
#include "lib/Frontend/ONNX/Model.h"
#include "lib/Frontend/ONNX/Node.h"
#include "lib/Frontend/ONNX/Parameters.h"
#include "lib/Frontend/ONNX/Scope.h"
#include "lib/Frontend/ONNX/Training/FileTraining.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include <functional>
#include <map>
#include <optional>
#include <set>

namespace shale::onnx {

struct Artifacts;

/// A tensor that is not a parameter and has at most this many bytes is a constant.
inline constexpr int64_t kConstantLimit = int64_t(16) << 20;
inline constexpr int64_t kMaxNodes = 1000000;
/// Bytes of constants in bodies of loops that count as one node.
inline constexpr int64_t kBytesOfNode = 4096;
inline constexpr int kMaxCallDepth = 100;

/// Emits a note that is attached to no other diagnostic. It is shown by default, unlike a remark,
/// and is no warning. MLIR has no function for this.
void emitNote(mlir::Location location, const llvm::Twine &message);

class Importer {
public:
  /// `artifacts`: the other files of a folder, or null.
  Importer(Model &model, const ImportOptions &options, mlir::MLIRContext *context,
           const Artifacts *artifacts = nullptr);

  mlir::OwningOpRef<mlir::ModuleOp> run();
  int getExitCode() const { return exitCode; }

  // ---- used by nodes and helpers
  mlir::OpBuilder builder;
  ConstantFolder folder;
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
  KnownLosses lossParts;
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
  /// Records the types of results that values do not have, and reduces these to them.
  mlir::LogicalResult finishNarrow(Node &node);
  mlir::Value parameterIn(const TensorProto &tensor, const NodeProto &node);
  mlir::FailureOr<mlir::Value> output(llvm::StringRef name);
  mlir::FailureOr<int64_t> addInput(llvm::StringRef name, mlir::RankedTensorType type,
                                    std::optional<int64_t> batchDim);
  const FunctionProto *findFunction(const NodeProto &node) const;
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
  int64_t nodeCount = 0, randomOps = 0;
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
