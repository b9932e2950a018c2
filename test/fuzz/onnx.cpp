// Fuzzes the ONNX importer, with its audit of what exports lose: the bytes of a model. Mutations
// change fields of the protocol buffers, and keep the lengths of the messages around them right.
#include "lib/Frontend/ONNX/Import.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Verifier.h"
#include "test/fuzz/Context.h"
#include "test/fuzz/Messages.h"

using namespace shale;
using namespace shale::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  MemoryFile file(llvm::StringRef(reinterpret_cast<const char *>(data), size));
  onnx::ImportOptions options;
  std::vector<std::string> assumed;
  options.assumed = &assumed; // as for --describe: no flags are needed
  options.assumedSize = 8;
  options.foldLimit = 1 << 16;
  options.missingData = onnx::ImportOptions::MissingData::Remark;
  bool parsed = false;
  mlir::ScopedDiagnosticHandler handler(&context(), [&](mlir::Diagnostic &diagnostic) {
    parsed |= llvm::StringRef(diagnostic.str()).find("not an ONNX model") == llvm::StringRef::npos;
    return mlir::success();
  });
  int code = 0;
  mlir::OwningOpRef<mlir::ModuleOp> module =
      onnx::importOnnx(file.path(), options, &context(), &code);
  ++counts().inputs;
  counts().beyond += module || parsed;
  counts().accepted += bool(module);
  if (module && failed(verify(*module)))
    std::abort(); // the importer made invalid IR
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed) {
  Random random(seed);
  std::string made = mutateMessage(llvm::StringRef(reinterpret_cast<char *>(data), size), random);
  if (made.empty() || made.size() > most || made.size() == size)
    if (random.below(8) == 0)
      return LLVMFuzzerMutate(data, size, most);
  if (made.empty() || made.size() > most)
    return size;
  std::copy(made.begin(), made.end(), data);
  return made.size();
}
