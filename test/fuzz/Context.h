//===- Context.h - What the fuzz targets of the compiler share ------------===//
#ifndef SHALE_TEST_FUZZ_CONTEXT_H
#define SHALE_TEST_FUZZ_CONTEXT_H

#include "mlir/IR/MLIRContext.h"
#include "shale/InitAll.h"
#include "test/fuzz/Fuzz.h"
#include "llvm/Support/raw_ostream.h"

namespace shale::fuzz {

/// A context with all dialects, which prints nothing without SHALE_FUZZ_PRINT.
inline mlir::MLIRContext &context() {
  static mlir::MLIRContext *made = [] {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    auto *context = new mlir::MLIRContext(registry, mlir::MLIRContext::Threading::DISABLED);
    context->loadAllAvailableDialects();
    context->printOpOnDiagnostic(false);
    context->getDiagEngine().registerHandler([](mlir::Diagnostic &diagnostic) {
      if (std::getenv("SHALE_FUZZ_PRINT"))
        llvm::errs() << diagnostic.getLocation() << ": " << diagnostic.str() << "\n";
      return mlir::success();
    });
    return context;
  }();
  return *made;
}

} // namespace shale::fuzz

#endif // SHALE_TEST_FUZZ_CONTEXT_H
