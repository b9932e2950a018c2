//===- Plugin.h - Plug-ins: passes, dialects, operators from outside -------===//
//
// A plug-in is a shared library that exports `shaleGetPlugin`. It links libShale.so
// and may add dialects, passes, handlers of ONNX operators and evaluators of the
// interpreter. The tools load it with --load-pass-plugin=FILE. docs/plugins.md has
// an example.
//
// C++ classes cross the border between a plug-in and libShale.so, so both must be
// built from the same headers. SHALE_ABI names them: Shale's version, LLVM's
// version and a hash of the installed headers.
//
//===----------------------------------------------------------------------===//
#ifndef SHALE_PLUGIN_H
#define SHALE_PLUGIN_H

#include "shale/Abi.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace shale {

namespace interp {
class Registry;
} // namespace interp
namespace onnx {
class HandlerRegistry;
} // namespace onnx

/// Describes a plug-in and registers what it adds. Functions may be null.
struct PluginInfo {
  /// SHALE_ABI. The first member in every version, since it is read before the others.
  const char *abi;
  const char *name;
  const char *version;
  /// Adds dialects to the registry.
  void (*registerDialects)(mlir::DialectRegistry &);
  /// Registers passes and pipelines with MLIR's global registry.
  void (*registerPasses)();
  /// Adds handlers of ONNX operators (lib/Frontend/ONNX/Node.h).
  void (*registerOperators)(onnx::HandlerRegistry &);
  /// Adds evaluators of ops (lib/Interpreter/Interpreter.h).
  void (*registerEvaluators)(interp::Registry &);
};

/// Loads the plug-in at `path`, adds its dialects to the registry, and registers what else it adds
/// once per process. Fails if the file is not a plug-in, was built from other headers, or adds a
/// handler or evaluator where one exists. A plug-in stays loaded.
llvm::Error loadPlugin(llvm::StringRef path, mlir::DialectRegistry &registry);

/// Loads the plug-ins that `--load-pass-plugin=FILE` or `--load-pass-plugin FILE` names, and
/// removes these arguments from `argv`.
llvm::Error loadPlugins(int &argc, char **argv, mlir::DialectRegistry &registry);

} // namespace shale

/// The entry point of a plug-in, defined by it.
extern "C" const shale::PluginInfo *shaleGetPlugin();

#endif // SHALE_PLUGIN_H
