//===- shale-lsp-server.cpp - Serves IR files to editors ------------------===//
#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "shale/InitAll.h"
#include "shale/Plugin.h"
#include "shale/Runtime.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"

/// MLIR's own text names another program.
static constexpr llvm::StringLiteral kHelp =
    R"(Shows errors, definitions and uses of Shale's IR in an editor that speaks the Language Server Protocol.
Usage: shale-lsp-server [flags]    an editor starts it, and talks to it on standard input and output
  --load-pass-plugin=FILE   a plug-in with dialects of its own; can be repeated
  --log=error|info|verbose  messages on standard error (info)
  --pretty                  write JSON on several lines
  --input-style=standard|delimited
                            how messages are separated; delimited: by lines of // ----- (standard)
  --lit-test                for tests: --input-style=delimited --pretty --log=verbose
  --help                    print this text and exit
)";

int main(int argc, char **argv) {
  auto asksForHelp = [](const char *word) {
    return llvm::is_contained({"--help", "-help", "-h"}, llvm::StringRef(word));
  };
  if (llvm::any_of(llvm::ArrayRef(argv, argc).drop_front(argc > 0), asksForHelp)) {
    llvm::outs() << kHelp;
    return SHALE_EXIT_OK;
  }
  mlir::DialectRegistry registry;
  shale::registerAllDialects(registry);
  if (llvm::Error wrong = shale::loadPlugins(argc, argv, registry)) {
    llvm::errs() << "shale-lsp-server: error: " << llvm::toString(std::move(wrong)) << "\n";
    return SHALE_EXIT_UNAVAILABLE;
  }
  return mlir::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
