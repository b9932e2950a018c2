//===- Inputs.h - The inputs of the forward function ----------------------===//
#ifndef SHALE_FRONTEND_ONNX_INPUTS_INPUTS_H
#define SHALE_FRONTEND_ONNX_INPUTS_INPUTS_H

#include "dialects/nn/NN.h"
#include "lib/Frontend/ONNX/ImportContext.h"

namespace shale::onnx {

/// An argument of the forward function that is no state.
struct Input {
  std::string name;
  mlir::RankedTensorType type;
  std::optional<int64_t> batchDim;
  bool isLabel = false;
  nn::Binding binding = nn::Binding::Data;
  mlir::BlockArgument argument = {};
  std::optional<nn::Role> role = {}; // set if it is not an input of the graph
  std::string sizes = {};            // "batch=4, 64": names as in the file
  bool isFixed = false;              // the file fixes the size of dimension 0
  bool folded = false;               // replaced by a constant of ones: no readers left
};

/// The inputs in the order of the arguments.
class Inputs {
public:
  /// Adds an argument after those of the other inputs, and its name to the graph's scope.
  Input &add(ImportContext &context, llvm::StringRef name, mlir::RankedTensorType type,
             std::optional<int64_t> batchDim);
  /// Returns the scalar argument of a role, from which random ops draw. Adds it at the first call.
  mlir::Value random(ImportContext &context, nn::Role role);

  /// Returns the input of an argument; null if there is none.
  Input *of(mlir::BlockArgument argument);
  /// Lists the names of the graph's inputs, for errors.
  std::string names() const;

  auto begin() { return list.begin(); }
  auto end() { return list.end(); }
  auto begin() const { return list.begin(); }
  auto end() const { return list.end(); }

private:
  std::vector<Input> list;
};

/// Adds the graph's inputs that are in `read`, with the sizes of --dim. Fails, with an error, if an
/// input or a flag about inputs is invalid, or if sizes are missing.
mlir::LogicalResult declareInputs(ImportContext &context, const llvm::StringSet<> &read,
                                  Inputs &inputs);

/// Chooses dimension 0 as the batch of the inputs if no dimension is named `batch` and the labels
/// and tokens have the same size there. Fails, with an error, if the batch cannot be split over the
/// ranks.
mlir::LogicalResult chooseBatch(ImportContext &context, Inputs &inputs);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_INPUTS_INPUTS_H
