//===- StepGraph.h - The values of a training step's graph ----------------===//
#ifndef SHALE_FRONTEND_ONNX_TRAINING_STEPGRAPH_H
#define SHALE_FRONTEND_ONNX_TRAINING_STEPGRAPH_H

#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Training/FileTraining.h"
#include "llvm/ADT/MapVector.h"

namespace shale::onnx {

/// Whether a node is of a standard operator and has `operands` operands.
bool isStandard(const NodeProto *node, llvm::StringRef type, int operands);

/// The `update_binding` of a file, in its order: initializers, and the values that they have after
/// a step.
using Bindings = llvm::MapVector<llvm::StringRef, llvm::StringRef>;

/// An initializer of an integer, plus a number.
struct Counted {
  llvm::StringRef initializer;
  int64_t offset = 0;
};

/// The graph of a training step, the model's with the algorithm appended: what computes a value,
/// and which numbers are known before the first step.
class StepGraph {
public:
  /// `initial`: values that replace those of initializers.
  StepGraph(ImportContext &context, const Bindings &bindings, const InitialValues &initial);

  ImportContext &context;
  const Bindings &bindings;
  const InitialValues &initial;

  const TensorProto *initializer(llvm::StringRef name) const {
    return context.definitions.initializers.lookup(name);
  }
  bool isInput(llvm::StringRef name) const { return inputs.contains(name) && !initializer(name); }
  bool isDefined(llvm::StringRef name) const {
    return initializer(name) || isInput(name) || maker(name);
  }
  /// Returns the name of a value behind copies (Identity).
  llvm::StringRef source(llvm::StringRef name) const {
    auto copied = sources.find(name);
    return copied == sources.end() ? name : copied->second;
  }
  /// Returns the node that computes a value, behind copies; null if there is none.
  const NodeProto *maker(llvm::StringRef name) const { return producers.lookup(source(name)); }
  /// Returns all names that a value is computed from, its own included.
  llvm::StringSet<> ancestors(llvm::StringRef name) const;

  /// Returns the value of an initializer of one number before the first step.
  std::optional<double> start(llvm::StringRef name) const;
  /// Returns the value of a constant scalar: of a Constant, or of an initializer that no update
  /// changes. Emits no error.
  std::optional<double> scalar(llvm::StringRef name) const;
  /// Returns what an integer scalar counts from: an initializer, and the sum of the constants that
  /// are added to it.
  std::optional<Counted> counted(llvm::StringRef name) const;

private:
  std::optional<double> onlyOf(const TensorProto &tensor) const;

  llvm::StringSet<> inputs;
  llvm::StringMap<const NodeProto *> producers;
  llvm::StringMap<llvm::StringRef> sources; // of copies
};

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_TRAINING_STEPGRAPH_H
