//===- LowerKernels.cpp - Kernels as data of the program ------------------===//
//
// The machine code of all kernels is one constant, @shale_device_code. For each
// kernel, a constant of its name describes the launch (ShaleDeviceKernel in
// include/shale/Runtime.h).
//
//===----------------------------------------------------------------------===//
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

LLVM::GlobalOp makeBytes(OpBuilder &b, Location loc, StringRef name, StringRef bytes,
                         LLVM::Linkage linkage, int64_t alignment) {
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size());
  auto global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, linkage, name,
                                       b.getStringAttr(bytes));
  global.setAlignment(alignment);
  return global;
}

/// Makes the constant that describes a kernel: its name in the code, and its threads per block.
void describe(OpBuilder &b, Location loc, StringRef symbol, StringRef name, int32_t threads) {
  MLIRContext *context = b.getContext();
  Type pointer = LLVM::LLVMPointerType::get(context), i32 = b.getI32Type();
  LLVM::GlobalOp text = makeBytes(b, loc, (symbol + ".name").str(),
                                  (name + StringRef("\0", 1)).str(), LLVM::Linkage::Private, 1);
  auto type = LLVM::LLVMStructType::getLiteral(context, {pointer, i32, i32});
  auto global = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::Internal,
                                       symbol, Attribute());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&global.getInitializerRegion());
  Value made = LLVM::UndefOp::create(b, loc, type);
  auto set = [&](Value value, int64_t place) {
    made = LLVM::InsertValueOp::create(b, loc, made, value, ArrayRef<int64_t>{place});
  };
  set(LLVM::AddressOfOp::create(b, loc, text), 0);
  set(LLVM::ConstantOp::create(b, loc, i32, b.getI32IntegerAttr(threads)), 1);
  set(LLVM::ConstantOp::create(b, loc, i32, b.getI32IntegerAttr(0)), 2);
  LLVM::ReturnOp::create(b, loc, made);
}

} // namespace

FailureOr<std::string> CudaTarget::compile(gpu::GPUModuleOp kernels,
                                           std::vector<KernelUsage> &usage) const {
  if (failed(lowerToNvvm(kernels)))
    return failure();
  FailureOr<std::vector<std::string>> ptx = emitPtx(kernels, architectures);
  if (failed(ptx))
    return failure();
  std::string fatbin, error;
  if (!assemble(architectures, *ptx, fatbin, usage, error))
    return kernels.emitError() << "cannot assemble the kernels: " << error;
  return fatbin;
}

FailureOr<std::vector<KernelUsage>> CudaTarget::lowerKernels(ModuleOp module) const {
  std::vector<KernelUsage> usage;
  auto kernels = module.lookupSymbol<gpu::GPUModuleOp>(kKernelModule);
  if (!kernels)
    return usage;
  Location loc = kernels.getLoc();
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
  makeBytes(b, loc, kDeviceCode, *code, LLVM::Linkage::Internal, 16);
  for (auto [symbol, kernel] : llvm::zip(symbols, described))
    describe(b, kernel.loc, symbol, kernel.name, kernel.threads);
  kernels.erase();
  return usage;
}
