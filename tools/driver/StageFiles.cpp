//===- StageFiles.cpp - What a compilation writes after its stages --------===//
#include "tools/driver/StageFiles.h"
#include "shale/Runtime.h"
#include "tools/driver/Dumps.h"
#include "tools/driver/KernelReports.h"
#include "tools/driver/SavePasses.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace shale;

void StageFiles::instrument(const Stage &stage, PassManager &manager) {
  writeKernelReports(manager, options, reported);
  if (options.savePasses)
    savePasses(manager, path(stage.name), lastDump, options, saved);
  if (options.printPasses)
    manager.enableIRPrinting(/*shouldPrintBeforePass=*/{},
                             [](Pass *, Operation *) { return true; });
  if (!options.crashReproducer.empty())
    manager.enableCrashReproducerGeneration(options.crashReproducer);
}

int StageFiles::save(ModuleOp module, StringRef stage, std::string passes, bool chosen) {
  if (options.saveTemps.empty())
    return SHALE_EXIT_OK;
  if (std::error_code error = llvm::sys::fs::create_directories(options.saveTemps)) {
    llvm::errs() << "shalec: error: cannot create '" << options.saveTemps
                 << "': " << error.message() << "\n";
    return SHALE_EXIT_IO;
  }
  std::string prefix = path(stage);
  ++number;
  DumpOrigin origin{std::move(passes), std::exchange(lastDump, prefix + ".mlirbc")};
  return writeDump(module, prefix, stage, origin, options, chosen);
}

std::string StageFiles::path(StringRef name) const {
  llvm::SmallString<128> path(options.saveTemps);
  llvm::sys::path::append(path, llvm::formatv("{0,0+2}-{1}", number, name).str());
  return path.str().str();
}
