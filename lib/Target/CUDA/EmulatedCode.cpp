//===- EmulatedCode.cpp - Kernels as a shared library of the host ---------===//
//
// The library exports `shale_emulated_kernels` (include/shale/Emulation.h), which the
// emulator's driver loads.
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/ConstantData.h"
#include "lib/Target/CUDA/GpuCode.h"
#include "lib/Target/CUDA/TemporaryFile.h"
#include "lib/Target/Link.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

/// Defines the table of kernels, which ends with a row of zeros.
static void defineTable(ModuleOp module, ArrayRef<HostKernel> kernels) {
  ConstantData data(module, "shale_emulated");
  std::vector<Datum> rows;
  for (const HostKernel &kernel : kernels)
    rows.push_back(
        data.fields({data.string(kernel.name), data.address(kernel.name), data.i32(kernel.threads),
                     data.i32(kernel.buffers), data.i64(kernel.sharedBytes)}));
  rows.push_back(data.fields({data.null(), data.null(), data.i32(0), data.i32(0), data.i64(0)}));
  // A struct of rows has the layout of an array of rows.
  data.define("shale_emulated_kernels", data.fields(rows), LLVM::Linkage::External);
}

FailureOr<std::string> CudaTarget::compileEmulated(gpu::GPUModuleOp kernels) const {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernels.getLoc());
  module->push_back(kernels->clone());
  FailureOr<std::vector<HostKernel>> lowered = lowerToHost(*module);
  if (failed(lowered))
    return failure();
  defineTable(*module, *lowered);
  llvm::SmallVector<char, 0> code;
  if (failed(host->emitObject(*module, code)))
    return failure();
  ToolError error;
  std::string library;
  TemporaryFile object("o", error), linked("so", error);
  LinkOptions options;
  options.shared = true;
  if (!object || !linked || !object.write(StringRef(code.data(), code.size()), error) ||
      !linkProgram({object.name().str()}, linked.name(), options, error) ||
      !linked.read(library, error))
    return emitToolError(kernels.getLoc(), "cannot link the emulated kernels", error);
  return library;
}
