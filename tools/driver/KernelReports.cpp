//===- KernelReports.cpp - Writes --report kernels ------------------------===//
#include "tools/driver/KernelReports.h"
#include "lib/Analysis/KernelReport.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "shale/Runtime.h"
#include "tools/driver/Outputs.h"

using namespace mlir;
using namespace shale;

namespace {
class KernelReports : public PassInstrumentation {
public:
  KernelReports(const CompileOptions &options, int &code) : options(options), code(code) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    if (pass->getArgument() != "shale-generate-kernels")
      return;
    for (const Report &report : options.reports) {
      if (report.kind != ReportKind::Kernels || code)
        continue;
      std::string text;
      llvm::raw_string_ostream os(text);
      if (failed(reportKernels(cast<ModuleOp>(op), reportFormOf(report.file()), os)))
        code = SHALE_EXIT_INTERNAL;
      else
        code = writeOutput(report.file(), [&](raw_ostream &file) { file << text; });
    }
  }

private:
  const CompileOptions &options;
  int &code;
};
} // namespace

void shale::writeKernelReports(PassManager &manager, const CompileOptions &options, int &code) {
  manager.addInstrumentation(std::make_unique<KernelReports>(options, code));
}
