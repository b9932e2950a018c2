//===- Build.cpp - From the LLVM dialect to a program ---------------------===//
#include "tools/driver/Build.h"
#include "lib/Support/CrashHandler.h"
#include "lib/Support/ToolError.h"
#include "lib/Target/Link.h"
#include "lib/Target/Target.h"
#include "shale/Runtime.h"
#include "tools/driver/Outputs.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace shale;

/// Returns the path of a file that emitted programs are linked with: in ../lib beside this
/// executable's folder.
static std::string inLibraries(StringRef name) {
  static int anchor;
  llvm::SmallString<128> path(llvm::sys::fs::getMainExecutable(nullptr, &anchor));
  llvm::sys::path::remove_filename(path);
  llvm::sys::path::append(path, "..", "lib", name);
  llvm::sys::path::remove_dots(path, /*remove_dot_dot=*/true);
  return path.str().str();
}

int shale::buildProgram(ModuleOp module, const Target &target, const CompileOptions &options,
                        Built &result) {
  llvm::SmallString<128> object;
  if (options.emit == Emit::Object) {
    object = options.output;
  } else if (std::error_code error = llvm::sys::fs::createTemporaryFile("shale", "o", object)) {
    llvm::errs() << "shalec: error: cannot create a temporary file: " << error.message() << "\n";
    return SHALE_EXIT_IO;
  }
  CrashStage writing("generating code");
  llvm::FileRemover remover(object, /*deleteIt=*/options.emit != Emit::Object);
  if (options.emit != Emit::Object)
    llvm::sys::RemoveFileOnSignal(object);
  llvm::SmallVector<char, 0> code;
  if (failed(target.emitObject(module, code)))
    return SHALE_EXIT_INTERNAL;
  if (int failed =
          writeOutput(object, [&](raw_ostream &os) { os.write(code.data(), code.size()); }))
    return failed;
  if (options.emit == Emit::Program) {
    LinkOptions link;
    for (const std::string &name : target.getRuntime()) {
      link.runtime.push_back(inLibraries(name));
      if (!llvm::sys::fs::exists(link.runtime.back())) {
        llvm::errs() << "shalec: error: this build has no runtime for " << target.getName() << ": "
                     << link.runtime.back()
                     << " is missing; build Shale where the libraries' headers are installed\n";
        return SHALE_EXIT_UNAVAILABLE;
      }
    }
    link.libraries = target.getLibraries();
    link.bundled = options.bundle;
    link.package = inLibraries("link");
    ToolError wrong;
    if (!linkProgram({object.str().str()}, options.output, link, wrong)) {
      llvm::errs() << "shalec: error: cannot link '" << options.output << "': " << wrong.message
                   << "\n";
      return wrong.exitCode;
    }
    std::string error;
    if (options.bundle &&
        !bundleLibraries(options.output, result.libraries, result.libraryBytes, error)) {
      llvm::errs() << "shalec: error: cannot bundle the libraries of '" << options.output
                   << "': " << error << "\n";
      return SHALE_EXIT_IO;
    }
  }
  return SHALE_EXIT_OK;
}
