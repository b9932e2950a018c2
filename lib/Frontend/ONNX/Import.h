//===- Import.h - From an ONNX file to the nn dialect ---------------------===//
#ifndef SHALE_FRONTEND_ONNX_IMPORT_H
#define SHALE_FRONTEND_ONNX_IMPORT_H

#include "dialects/nn/Bindings.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

namespace shale::onnx {

/// Options for parameters.
struct ParameterOptions {
  /// `--keep-prefix`: keep the first component that all names share.
  bool keepPrefix = false;
  /// `--freeze REGEX`: parameters that are not trained; empty: none.
  std::string freeze;
  /// `--constant NAME`: initializers that depend on no parameter, whatever they look like.
  llvm::StringSet<> constants;
  /// `--assume-form OPERATION`: operations whose nodes are not held against their form.
  llvm::StringSet<> assumedForms;
  /// `--assume-tied true|false`: whether weights of a file of TorchScript's exporter that begin
  /// with equal elements, where the file does not show it, are one parameter. None: not given.
  std::optional<bool> assumeTied;
  /// `--without-rule RULE`, of tests: rules that are not asked.
  llvm::StringSet<> rulesOff;

  /// Names of parameters that do not require a gradient in PyTorch, as the file records.
  llvm::StringSet<> recordedFrozen;

  /// Whether a parameter is not trained: the file records it, or `--freeze` matches its name.
  bool freezes(llvm::StringRef name) const {
    return recordedFrozen.contains(name) || (!freeze.empty() && llvm::Regex(freeze).match(name));
  }
};

struct ImportOptions {
  /// Sizes of named dimensions, of the whole program: `--dim NAME=SIZE`.
  llvm::StringMap<int64_t> dims;
  /// Batch dimensions: `--batch-dim INPUT:DIM`. Default: dimensions named `batch`.
  llvm::StringMap<int64_t> batchDims;
  /// `--loss next-token:LOGITS | cross-entropy:LOGITS,LABELS | mse:OUT,TARGET | mean:OUT |
  /// sum:OUT`.
  std::string loss;
  /// `--loss-output NAME`, when the graph has several scalar outputs, or NAME=WEIGHT,.. for a
  /// weighted sum.
  std::string lossOutput;
  /// `--gradient PARAMETER=OUTPUT`: outputs that are gradients, by parameter.
  std::vector<std::pair<std::string, std::string>> gradients;
  /// `--gradient none`: gradients are derived, although the graph computes some.
  bool deriveGradients = false;
  /// `--bind INPUT=tokens|tokens+1|ones|arange|file`.
  llvm::StringMap<nn::Binding> bindings;
  /// `--assume-autocast`: blocks that were exported under a context manager are assumed to let
  /// gradients pass.
  bool assumeAutocast = false;
  /// `--assume-derivative FUNCTION`: autograd.Functions whose backward is the derivative of their
  /// forward, by class ("Round"), or by call ("model.py:12").
  std::vector<std::string> assumeDerivative;
  /// `--assume-merged OPERATION`: operations of which those that the export merged have the same
  /// gradients, such as aten.softmax.int: none of them reads or gives a detached value.
  std::vector<std::string> assumeMerged;
  /// `--dropout RATIO|off`: the ratio of all Dropout nodes in training mode, instead of the file's.
  std::optional<double> dropout;
  /// Number of ranks that the batch is sharded over.
  int64_t dataRanks = 1;
  ParameterOptions parameters;
  /// Severity of a missing file of weights. The compiler needs only shapes; the
  /// compiled program ends with exit code 66 when it starts.
  enum class MissingData { Error, Warning, Remark } missingData = MissingData::Error;
  /// Set if a model is only described: flags that it needs and that were not
  /// given are assumed, and appended here. Assumed dimensions of an input, except
  /// its first, get `assumedSize`.
  std::vector<std::string> *assumed = nullptr;
  int64_t assumedSize = 128;
  /// Maximum size of one folded value, in bytes.
  int64_t foldLimit = int64_t(64) << 20;
};

/// Imports a model. Returns a module with `nn.model`, one nn.state per parameter
/// and buffer, and `@forward(inputs, states) -> (loss, loss_sum, count, gradients...)`; gradients
/// if the graph computes them, with `nn.gradient_of`. On failure emits one error, returns null and
/// sets `exitCode`, if given, to the kind of error (include/shale/Runtime.h).
mlir::OwningOpRef<mlir::ModuleOp> importOnnx(llvm::StringRef path, const ImportOptions &options,
                                             mlir::MLIRContext *context, int *exitCode = nullptr);

/// Parses one flag of ImportOptions ("dim", "batch-dim", "bind", "gradient": KEY=VALUE or
/// KEY:VALUE). Returns an error message, or an empty string.
std::string parseImportFlag(llvm::StringRef flag, llvm::StringRef value, ImportOptions &options);

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_IMPORT_H
