//===- States.h - Parameters and buffers that are states ------------------===//
#ifndef SHALE_FRONTEND_ONNX_INPUTS_STATES_H
#define SHALE_FRONTEND_ONNX_INPUTS_STATES_H

#include "lib/Frontend/ONNX/ImportContext.h"
#include "lib/Frontend/ONNX/Rules/Parameters.h"
#include "lib/Frontend/ONNX/Training/FileTraining.h"

namespace shale::onnx {

struct NextBuffer;

/// The parameters and buffers of the model, and which of them are nn.state.
struct States {
  Parameters parameters;
  std::vector<mlir::Value> values; // the argument by index into parameters.list, or null

  /// Whether the value is a state itself.
  bool contains(mlir::Value value) const { return llvm::is_contained(values, value); }
  /// Returns the parameter or buffer of an argument; null if it has none.
  const Parameter *of(mlir::Value value) const;
  /// Returns the index of the parameter with a name, as Shale or the exporter writes it; none if
  /// there is none.
  std::optional<size_t> indexOf(llvm::StringRef name) const;
  /// Whether it is a parameter that is a state, and that neither a flag nor the file's record
  /// freezes.
  bool isTrained(size_t index, const ParameterOptions &options) const;
};

/// Finds the model's parameters and buffers, and declares each that is used as an nn.state and an
/// argument of the forward function. Small buffers stay constants where they are read. Fails, with
/// an error, if parameters may be lost or their values cannot be referred to.
/// `changed`: buffers that a traced step changes.
mlir::FailureOr<States> declareStates(ImportContext &context,
                                      const std::optional<FileTraining> &training,
                                      llvm::ArrayRef<NextBuffer> changed);

/// Returns the parameters that do not require a gradient in PyTorch, each by all its names, as
/// export.py records them in the graph: a line per parameter, tabs between names.
/// `keepPrefix`: names begin with that of the module in which export.py wrapped the user's.
std::vector<std::vector<std::string>> readRecordedFrozen(const GraphProto &graph, bool keepPrefix);

/// Marks the state of a parameter as not trained.
void markUntrained(ImportContext &context, llvm::StringRef name);

/// A buffer of the model, and the output of the graph that is its value after a step.
struct NextBuffer {
  std::string name, output;
};

/// Reads the buffers that the file's record lists: a line per buffer, with its name in the user's
/// module, a tab, and an output. Fails, with an error, if the list has another form, an unknown
/// output, or a name twice.
mlir::FailureOr<std::vector<NextBuffer>> readNextBuffers(ImportContext &context);

/// A buffer's state, and its value after a step.
struct NextValue {
  size_t index; // into the list of parameters
  mlir::Value value;
};

/// Returns the values of the buffers that are states. Fails, with an error, if one is not of its
/// buffer's type.
mlir::FailureOr<std::vector<NextValue>> nextValues(ImportContext &context, const States &states,
                                                   llvm::ArrayRef<NextBuffer> buffers);

/// Returns the name of a parameter that the value is computed from, without a stop of gradients
/// between the two; empty if there is none.
std::string parameterBehind(const States &states, mlir::Value value);

/// Returns a hint for an error about `wants` positions where the model has
/// `has`: which --dim is too large. `tables` are the values with `has`
/// positions. Empty if no dimension has about that size.
std::string positionsHint(const ImportOptions &options, const States &states,
                          llvm::ArrayRef<mlir::Value> tables, int64_t has, int64_t wants);

/// Returns such a hint, as a sentence of its own, for sizes of `values` that do not broadcast.
std::string broadcastHint(const ImportOptions &options, const States &states,
                          llvm::ArrayRef<mlir::Value> values, int64_t one, int64_t other);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_INPUTS_STATES_H
