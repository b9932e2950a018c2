//===- FileTraining.h - What a file says about its training ---------------===//
#ifndef SHALE_FRONTEND_ONNX_TRAINING_FILETRAINING_H
#define SHALE_FRONTEND_ONNX_TRAINING_FILETRAINING_H

#include "dialects/nn/Optimizers.h"
#include "lib/Frontend/ONNX/Reader/Model.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace shale {
class ConstantFolder;
} // namespace shale

namespace shale::onnx {

class ImportContext;
class Inputs;
struct Artifacts;

/// Values that replace those of initializers, by name.
using InitialValues = llvm::StringMap<mlir::DenseElementsAttr>;

/// An optimizer with the constants of a file.
struct FileOptimizer {
  const nn::Optimizer *kind = nullptr;
  /// Hyper-parameters by name: those that the file fixes, and those that it has a default for.
  std::map<std::string, double> fixed, defaults;
  /// The count of updates, if the update depends on one.
  std::optional<nn::UpdateCounter> counter;

  /// The graph's input that is the learning rate; empty if the file has its value.
  std::string rateInput;
};

/// An attribute of an optimizer, and the hyper-parameter that it sets.
struct Setting {
  const char *attribute, *hyper;
  std::optional<double> missing; // the default; none: the attribute must be there
};

/// The attributes of a node that is read, not imported. Errors begin with `where`.
class NodeAttributes {
public:
  NodeAttributes(ImportContext &context, const NodeProto &node, llvm::StringRef where = "")
      : context(context), node(node), where(where), isTaken(node.attribute_size()) {}

  /// Returns an attribute; null if there is none.
  const AttributeProto *take(llvm::StringRef name);
  /// Returns an attribute; an empty one if there is none.
  const AttributeProto &value(llvm::StringRef name) {
    const AttributeProto *found = take(name);
    return found ? *found : AttributeProto::default_instance();
  }
  /// Returns a yes or no. Fails, with an error, if it is another number.
  mlir::FailureOr<bool> flag(llvm::StringRef name, bool missing);
  /// Sets the hyper-parameters of the optimizer. Fails, with an error, if a value is not in its
  /// range, or if an attribute is none of a number.
  mlir::LogicalResult set(llvm::ArrayRef<Setting> settings, FileOptimizer &optimizer);
  /// Fails, with an error, if an attribute was not taken, or is given twice.
  mlir::LogicalResult finish();

private:
  template <typename... Parts>
  mlir::LogicalResult fail(const llvm::Twine &pattern, Parts &&...parts);

  ImportContext &context;
  const NodeProto &node;
  const llvm::StringRef where;
  llvm::SmallBitVector isTaken;
};

/// The training step of a file.
struct FileTraining {
  /// The part of the file that defines the step, for messages.
  std::string origin;
  /// The value whose gradients are taken.
  std::string loss;
  /// The initializers that are trained, in the order of their updates.
  std::vector<std::string> parameters;
  /// Other initializers of floats that belong to the model: they keep their values.
  std::vector<std::string> frozen;
  /// Initial values that replace those of initializers, by name.
  InitialValues initial;
  FileOptimizer optimizer;
};

/// Adds to the graph what other parts of the file, or other files of the folder, bring. Returns
/// what the other files say about training. `artifacts`: those of a folder, or null.
mlir::FailureOr<std::optional<FileTraining>> completeGraph(ImportContext &context,
                                                           const Artifacts *artifacts);

/// Computes the initial values of a `training_info`: the graph `initialization`, bound to
/// initializers.
mlir::FailureOr<InitialValues> computeInitialValues(ImportContext &context, Inputs &inputs,
                                                    ConstantFolder &folder);

/// Reads the training step that a model's `training_info` describes (ONNX IR, "Training Related
/// Information"), after completeGraph. Every use of `Gradient` and every update that Shale cannot
/// compute exactly is an error on its node.
mlir::FailureOr<FileTraining> readTrainingInfo(ImportContext &context, InitialValues initial);

/// Whether a declared type contradicts a tensor's; what is not declared does not.
bool contradicts(const TypeProto::Tensor &type, const TensorProto &tensor);

/// Fails, with an error, if a flag contradicts the file's training step.
mlir::LogicalResult checkTrainingFlags(ImportContext &context, const FileTraining &training);

/// Records the optimizer in the module.
void describeOptimizer(ImportContext &context, const FileOptimizer &optimizer);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_TRAINING_FILETRAINING_H
