//===- EmulatedCode.cpp - Kernels as a shared library of the host ---------===//
//
// The library exports `shale_emulated_kernels` (include/shale/Emulation.h), which the
// emulator's driver loads.
//
//===----------------------------------------------------------------------===//
#include "lib/Target/CUDA/GpuCode.h"
#include "lib/Target/CUDA/TemporaryFile.h"
#include "lib/Target/Link.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace shale;
using namespace shale::cuda;

/// Defines the table of kernels, which ends with a row of zeros.
static void defineTable(ModuleOp module, ArrayRef<HostKernel> kernels) {
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  Location loc = module.getLoc();
  Type pointer = LLVM::LLVMPointerType::get(b.getContext()), i32 = b.getI32Type(),
       i64 = b.getI64Type();
  auto row = LLVM::LLVMStructType::getLiteral(b.getContext(), {pointer, pointer, i32, i32, i64});
  auto type = LLVM::LLVMArrayType::get(row, kernels.size() + 1);
  SmallVector<LLVM::GlobalOp> names;
  for (const HostKernel &kernel : kernels) {
    std::string text = kernel.name + '\0';
    names.push_back(LLVM::GlobalOp::create(
        b, loc, LLVM::LLVMArrayType::get(b.getI8Type(), text.size()), true, LLVM::Linkage::Private,
        kernel.name + ".name", b.getStringAttr(text)));
  }
  auto table = LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true, LLVM::Linkage::External,
                                      "shale_emulated_kernels", Attribute());
  b.createBlock(&table.getInitializerRegion());
  Value made = LLVM::ZeroOp::create(b, loc, type);
  auto set = [&](int64_t index, int64_t field, Value value) {
    made = LLVM::InsertValueOp::create(b, loc, made, value, ArrayRef<int64_t>{index, field});
  };
  auto number = [&](Type type, int64_t value) -> Value {
    return LLVM::ConstantOp::create(b, loc, type, b.getIntegerAttr(type, value));
  };
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    set(index, 0, LLVM::AddressOfOp::create(b, loc, names[index]));
    set(index, 1, LLVM::AddressOfOp::create(b, loc, pointer, kernel.name));
    set(index, 2, number(i32, kernel.threads));
    set(index, 3, number(i32, kernel.buffers));
    set(index, 4, number(i64, kernel.sharedBytes));
  }
  LLVM::ReturnOp::create(b, loc, made);
}

FailureOr<std::string> CudaTarget::compileEmulated(gpu::GPUModuleOp kernels) const {
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernels.getLoc());
  module->push_back(kernels->clone());
  FailureOr<std::vector<HostKernel>> lowered = lowerToHost(*module);
  if (failed(lowered))
    return failure();
  defineTable(*module, *lowered);
  llvm::SmallVector<char, 0> code;
  if (failed(host.emitObject(*module, code)))
    return failure();
  std::string error, library;
  TemporaryFile object("o", error), linked("so", error);
  LinkOptions options;
  options.shared = true;
  if (!object || !linked || !object.write(StringRef(code.data(), code.size()), error) ||
      !linkProgram({object.name().str()}, linked.name(), options, error) ||
      !linked.read(library, error))
    return kernels.emitError() << "cannot link the emulated kernels: " << error;
  return library;
}
