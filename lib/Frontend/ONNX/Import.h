//===- Import.h - From an ONNX file to the nn dialect ---------------------===//
#ifndef SHALE_FRONTEND_ONNX_IMPORT_H
#define SHALE_FRONTEND_ONNX_IMPORT_H

#include "lib/Frontend/ONNX/ParameterOptions.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include <string>
#include <vector>

namespace shale::onnx {

struct ImportOptions {
  /// Sizes of named dimensions, of the whole program: `--dim NAME=SIZE`.
  llvm::StringMap<int64_t> dims;
  /// `--batch-dim INPUT:DIM`; without it dimensions named `batch`.
  llvm::StringMap<int64_t> batchDims;
  /// `--loss next-token:LOGITS | cross-entropy:LOGITS,LABELS | mse:OUT,TARGET`.
  std::string loss;
  /// `--loss-output NAME`, when the graph has several scalar outputs.
  std::string lossOutput;
  /// `--bind INPUT=tokens|tokens+1|ones|arange|file`.
  llvm::StringMap<std::string> bindings;
  /// `--assume-autocast`: blocks that were exported under a context manager let gradients pass.
  bool assumeAutocast = false;
  /// Ranks that share out the batch.
  int64_t dataRanks = 1;
  /// How names are written, what is frozen, what is a constant.
  ParameterOptions parameters;
  /// What it is that a file of weights does not exist. Shapes are all that a
  /// compiler needs; a program ends with exit code 66 when it starts.
  enum class MissingData { Error, Warning, Remark } missingData = MissingData::Error;
  /// Where a model is only looked at: flags that it needs and that were not
  /// typed are assumed, and added here. Dimensions but the first get `assumedSize`.
  std::vector<std::string> *assumed = nullptr;
  int64_t assumedSize = 128;
  /// Bytes that one folded value may have.
  int64_t foldLimit = int64_t(64) << 20;
};

/// Imports a model: a module with `nn.model`, one nn.state per parameter and
/// buffer, and `@forward(inputs, states) -> (loss, loss_sum, count)`. On
/// failure one error has been emitted and `exitCode`, if given, says of which
/// kind (include/shale/Runtime.h).
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(llvm::StringRef path,
                                             const ImportOptions &options,
                                             mlir::MLIRContext *context,
                                             int *exitCode = nullptr);

/// Of a recovered model: where attention sees later positions too, labels that were bound to
/// the next tokens (and not by a flag) would be copied. They are taken from the data file then,
/// with a note.
void unbindVisibleLabels(mlir::ModuleOp module, const ImportOptions &options);

/// Parses one flag of the above ("dim", "batch-dim", "bind": KEY=VALUE or
/// KEY:VALUE). Returns what is wrong with it, or an empty string.
std::string parseImportFlag(llvm::StringRef flag, llvm::StringRef value,
                            ImportOptions &options);

/// Prints inputs, dimensions, parameters, blocks, loss and how labels are bound
/// of an imported module: what `shalec MODEL --describe` shows.
void describeModel(mlir::ModuleOp module, llvm::raw_ostream &os);

/// The command that trains it, with what its data file has to hold.
void describeTraining(mlir::ModuleOp module, llvm::StringRef program, llvm::raw_ostream &os);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_IMPORT_H
