//===- SavePasses.cpp - Writes the module after each pass to a file -------===//
#include "tools/driver/SavePasses.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "tools/driver/Dumps.h"
#include "tools/driver/Outputs.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace {
class PassFiles : public PassInstrumentation {
public:
  PassFiles(StringRef prefix, StringRef before, const shale::CompileOptions &options, int &code)
      : prefix(prefix.str()), before(before.str()), options(options), code(code) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    StringRef name = pass->getArgument();
    if (name.empty() || code) // an adaptor of nested passes, or an earlier write failed
      return;
    name.consume_front("shale-");
    auto module = dyn_cast<ModuleOp>(op);
    if (!module)
      module = op->getParentOfType<ModuleOp>();
    std::string path = llvm::formatv("{0}-{1,0+2}-{2}.mlir", prefix, ++number, name);
    std::string pipeline = "builtin.module(" + textOf(*pass, op) + ")";
    std::string repeat = shale::repeatCommand(before, pipeline, options);
    before = path;
    code = shale::writeOutput(path, [&](raw_ostream &os) {
      shale::writeComment("To repeat the pass: " + repeat, os);
      shale::printModule(module, std::numeric_limits<int64_t>::max(), os);
    });
  }

private:
  /// Returns the pass and its options as in a pipeline of a module's passes.
  static std::string textOf(Pass &pass, Operation *op) {
    std::string text;
    llvm::raw_string_ostream os(text);
    bool isNested = !isa<ModuleOp>(op);
    if (isNested)
      os << op->getName().getStringRef() << "(";
    pass.printAsTextualPipeline(os);
    if (isNested)
      os << ")";
    return text;
  }

  std::string prefix, before; // `before`: the file that the pass reads
  const shale::CompileOptions &options;
  int &code;
  int number = 0;
};
} // namespace

void shale::savePasses(PassManager &manager, StringRef prefix, StringRef before,
                       const CompileOptions &options, int &code) {
  manager.addInstrumentation(std::make_unique<PassFiles>(prefix, before, options, code));
}
