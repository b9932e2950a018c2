//===- SavePasses.cpp - The module after each pass, as files --------------===//
#include "lib/Driver/SavePasses.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;

namespace {
class PassFiles : public PassInstrumentation {
public:
  explicit PassFiles(StringRef prefix) : prefix(prefix.str()) {}

  void runAfterPass(Pass *pass, Operation *op) override {
    StringRef name = pass->getArgument();
    if (name.empty()) // an adaptor of nested passes
      return;
    name.consume_front("shale-");
    auto module = dyn_cast<ModuleOp>(op);
    if (!module)
      module = op->getParentOfType<ModuleOp>();
    std::string path = llvm::formatv("{0}-{1,0+2}-{2}.mlir", prefix, ++number, name);
    if (llvm::Error error = llvm::writeToOutput(path, [&](raw_ostream &os) {
          module.print(os);
          os << "\n";
          return llvm::Error::success();
        }))
      module.emitError("cannot write '") << path << "': " << llvm::toString(std::move(error));
  }

private:
  std::string prefix;
  int number = 0;
};
} // namespace

void shale::savePasses(PassManager &manager, StringRef prefix) {
  manager.addInstrumentation(std::make_unique<PassFiles>(prefix));
}
