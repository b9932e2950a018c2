//===- LowerKernels.cpp - Kernels as data of the program ------------------===//
//
// The machine code of all kernels is one constant, @shale_device_code. For each
// kernel, a constant of its name describes the launch (ShaleDeviceKernel in
// include/shale/Runtime.h).
//
//===----------------------------------------------------------------------===//
#include "lib/Codegen/ProgramData.h"
#include "lib/Support/Remarks.h"
#include "lib/Target/CUDA/GpuCode.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

namespace {

/// Gives kernels names that PTX allows, in which others than letters and digits are underscores.
/// Returns the old names, in order.
std::vector<std::string> rename(gpu::GPUModuleOp kernels) {
  std::vector<std::string> names;
  llvm::StringSet<> taken;
  for (auto function : kernels.getOps<gpu::GPUFuncOp>()) {
    names.push_back(function.getName().str());
    std::string name = names.back();
    std::replace_if(name.begin(), name.end(), [](char c) { return !llvm::isAlnum(c); }, '_');
    std::string unique = name;
    for (int i = 1; !taken.insert(unique).second; ++i)
      unique = name + "_" + std::to_string(i);
    function.setName(unique);
  }
  return names;
}

} // namespace

FailureOr<std::string> CudaTarget::compile(gpu::GPUModuleOp kernels,
                                           std::vector<KernelUsage> &usage) const {
  if (failed(lowerToNvvm(kernels)))
    return failure();
  FailureOr<std::vector<std::string>> ptx = emitPtx(kernels, architectures);
  if (failed(ptx))
    return failure();
  std::string fatbin;
  ToolError error;
  if (!assemble(architectures, *ptx, fatbin, usage, error))
    return emitToolError(kernels.getLoc(), "cannot assemble the kernels", error);
  return fatbin;
}

FailureOr<std::vector<KernelUsage>> CudaTarget::lowerKernels(ModuleOp module) const {
  std::vector<KernelUsage> usage;
  auto kernels = module.lookupSymbol<gpu::GPUModuleOp>(kKernelModule);
  if (!kernels)
    return usage;
  std::vector<std::string> symbols = rename(kernels);
  struct Described {
    std::string name;
    int32_t threads;
    Location loc;
  };
  std::vector<Described> described;
  for (auto function : kernels.getOps<gpu::GPUFuncOp>())
    described.push_back({function.getName().str(),
                         function.getKnownBlockSize().value_or(ArrayRef<int32_t>{1}).front(),
                         function.getLoc()});
  FailureOr<std::string> code =
      architectures.front().isEmulated() ? compileEmulated(kernels) : compile(kernels, usage);
  if (failed(code))
    return failure();
  for (KernelUsage &use : usage) {
    size_t number =
        llvm::find_if(described, [&](const Described &d) { return d.name == use.name; }) -
        described.begin();
    emitDecision(
        described[number].loc, "gpu-kernels",
        llvm::formatv("{0}: {1} registers, {2} bytes of shared memory, {3} bytes spilled on {4}",
                      use.name, use.registers, use.sharedBytes, use.spilledBytes, use.architecture)
            .str());
    use.name = symbols[number];
  }
  OpBuilder b(kernels);
  LLVM::GlobalOp::create(b, kernels.getLoc(), LLVM::LLVMArrayType::get(b.getI8Type(), code->size()),
                         /*isConstant=*/true, LLVM::Linkage::Internal, kDeviceCode,
                         b.getStringAttr(*code))
      .setAlignment(16);
  abi::ProgramData data(module, "shale_device");
  for (auto [symbol, kernel] : llvm::zip(symbols, described)) {
    abi::Row<ShaleDeviceKernel> row;
    row.name = data.text(kernel.name);
    row.threads = kernel.threads;
    data.define(symbol, row, LLVM::Linkage::Internal);
  }
  kernels.erase();
  return usage;
}
