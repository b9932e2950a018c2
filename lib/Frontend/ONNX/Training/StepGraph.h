//===- StepGraph.h - The graph of a file's training step ------------------===//
#ifndef SHALE_FRONTEND_ONNX_TRAINING_STEPGRAPH_H
#define SHALE_FRONTEND_ONNX_TRAINING_STEPGRAPH_H

#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Training/FileTraining.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

namespace shale::onnx {

/// Domain of `Gradient` and of the optimizers.
inline constexpr llvm::StringLiteral kTrainingDomain = "ai.onnx.preview.training";

/// The `update_binding` of a file, in its order: initializers, and the values that they have after
/// a step.
using Bindings = llvm::MapVector<llvm::StringRef, llvm::StringRef>;

/// An initializer of an integer, plus a number.
struct Counted {
  std::string initializer;
  int64_t offset = 0;
};

/// The nodes and names of a training step: the model's graph with the algorithm appended.
class StepGraph {
public:
  StepGraph(ImportContext &context, const InitialValues &initial, const Bindings &bindings);

  const GraphProto &graph() const { return context.graph(); }
  const TensorProto *initializer(llvm::StringRef name) const {
    return context.definitions.initializers.lookup(name);
  }
  const NodeProto *producer(llvm::StringRef name) const { return producers.lookup(name); }
  bool isInput(llvm::StringRef name) const { return inputs.contains(name); }
  bool isDefined(llvm::StringRef name) const;

  /// Returns the name of a value behind copies (Identity).
  llvm::StringRef source(llvm::StringRef name) const;
  /// Returns all names that a value is computed from, its own included.
  llvm::StringSet<> ancestors(llvm::StringRef name) const;
  /// Whether it is a node of ONNX's training operators; any of them if `type` is empty.
  static bool isTraining(const NodeProto &node, llvm::StringRef type = "");

  /// Returns the value of a constant scalar: of a Constant, or of an initializer that no update
  /// changes. Emits no error.
  std::optional<double> scalar(llvm::StringRef name) const;
  /// Returns the value of an initializer of one number before the first step.
  std::optional<double> start(llvm::StringRef initializer) const;
  /// Returns the value that an initializer gets by an update; empty: none.
  llvm::StringRef update(llvm::StringRef initializer) const;
  /// Returns what an integer scalar counts from: an initializer, plus or minus constants.
  std::optional<Counted> counted(llvm::StringRef name) const;
  /// Whether all elements of an initializer are 0 at the start.
  llvm::Expected<bool> isZero(llvm::StringRef initializer) const;

private:
  ImportContext &context;
  const InitialValues &initial;
  const Bindings &bindings;
  llvm::StringMap<const NodeProto *> producers;
  llvm::StringSet<> inputs;
  mutable llvm::StringMap<llvm::StringRef> sources; // found by source()
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_TRAINING_STEPGRAPH_H
