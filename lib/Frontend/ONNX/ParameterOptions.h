//===- ParameterOptions.h - User options for parameters -------------------===//
#ifndef SHALE_FRONTEND_ONNX_PARAMETEROPTIONS_H
#define SHALE_FRONTEND_ONNX_PARAMETEROPTIONS_H

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"
#include <optional>
#include <string>

namespace shale::onnx {

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

} // namespace shale::onnx

#endif // SHALE_FRONTEND_ONNX_PARAMETEROPTIONS_H
