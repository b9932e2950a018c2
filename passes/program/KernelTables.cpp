//===- KernelTables.cpp - The tables of kernels ---------------------------===//
#include "passes/program/KernelTables.h"
#include "dialects/rt/RT.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/program/Program.h"
#include <map>

using namespace mlir;
using namespace shale;
using namespace shale::abi;

DeviceCode shale::deviceCode(ModuleOp module, ProgramData &data) {
  DeviceCode made;
  if (auto code = module.lookupSymbol<LLVM::GlobalOp>(kDeviceCode)) {
    made.bytes = data.addressOf<const void>(kDeviceCode);
    made.size = cast<LLVM::LLVMArrayType>(code.getGlobalType()).getNumElements();
  }
  std::vector<Address<const ShaleDeviceKernel>> kernels;
  for (auto kernel : module.getOps<rt::KernelOp>())
    if (kernel.getFunction() && module.lookupSymbol<LLVM::GlobalOp>(*kernel.getFunction()))
      kernels.push_back(data.addressOf<const ShaleDeviceKernel>(*kernel.getFunction()));
  made.kernels = data.addresses<const ShaleDeviceKernel *>("device_kernels", kernels);
  return made;
}

Rows<ShaleKernelOperands> shale::kernelOperands(ModuleOp module, ProgramData &data) {
  std::map<StringRef, std::vector<Row<ShaleOperand>>> operandsOf;
  for (auto kernel : module.getOps<rt::KernelOp>())
    if (kernel.getFunction())
      for (TypeRange types :
           {kernel.getFunctionType().getInputs(), kernel.getFunctionType().getResults()})
        for (Type each : types) {
          auto type = cast<RankedTensorType>(each);
          Row<ShaleOperand> row;
          row.count = type.getNumElements();
          row.type = runtimeType(type.getElementType());
          operandsOf[kernel.getSymName()].push_back(std::move(row));
        }
  std::vector<Row<ShaleKernelOperands>> rows;
  for (const auto &[name, operands] : operandsOf) {
    Row<ShaleKernelOperands> row;
    row.name = data.text(name);
    row.operands = data.table<ShaleOperand>("operands", operands);
    rows.push_back(std::move(row));
  }
  return data.table<ShaleKernelOperands>("kernels", rows);
}
