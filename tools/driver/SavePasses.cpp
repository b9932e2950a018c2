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
  PassFiles(StringRef prefix, int &code) : prefix(prefix.str()), code(code) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    StringRef name = pass->getArgument();
    if (name.empty() || code) // an adaptor of nested passes, or an earlier write failed
      return;
    name.consume_front("shale-");
    auto module = dyn_cast<ModuleOp>(op);
    if (!module)
      module = op->getParentOfType<ModuleOp>();
    std::string path = llvm::formatv("{0}-{1,0+2}-{2}.mlir", prefix, ++number, name);
    code = shale::writeOutput(path, [&](raw_ostream &os) {
      shale::printModule(module, std::numeric_limits<int64_t>::max(), os);
    });
  }

private:
  std::string prefix;
  int &code;
  int number = 0;
};
} // namespace

void shale::savePasses(PassManager &manager, StringRef prefix, int &code) {
  manager.addInstrumentation(std::make_unique<PassFiles>(prefix, code));
}
