//===- KernelTables.cpp - The tables of kernels ---------------------------===//
#include "passes/program/KernelTables.h"
#include "dialects/rt/RT.h"
#include "lib/Target/Target.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "passes/program/Program.h"
#include <map>

using namespace mlir;
using namespace shale;

Datum shale::deviceCode(ModuleOp module, ConstantData &data, int64_t &bytes) {
  auto code = module.lookupSymbol<LLVM::GlobalOp>(kDeviceCode);
  bytes = code ? cast<LLVM::LLVMArrayType>(code.getGlobalType()).getNumElements() : 0;
  return code ? data.address(kDeviceCode) : data.null();
}

Datum shale::deviceKernels(ModuleOp module, ConstantData &data, int64_t &count) {
  std::vector<Datum> rows;
  for (auto kernel : module.getOps<rt::KernelOp>())
    if (kernel.getFunction() && module.lookupSymbol<LLVM::GlobalOp>(*kernel.getFunction()))
      rows.push_back(data.address(*kernel.getFunction()));
  count = rows.size();
  return data.array("device_kernels", std::move(rows));
}

Datum shale::kernelOperands(ModuleOp module, ConstantData &data, int64_t &count) {
  std::map<StringRef, std::vector<Datum>> operandsOf;
  for (auto kernel : module.getOps<rt::KernelOp>())
    if (kernel.getFunction())
      for (TypeRange types :
           {kernel.getFunctionType().getInputs(), kernel.getFunctionType().getResults()})
        for (Type each : types) {
          auto type = cast<RankedTensorType>(each);
          operandsOf[kernel.getSymName()].push_back(
              data.fields({data.i64(type.getNumElements()),
                           data.i32(runtimeType(type.getElementType())), data.i32(0)}));
        }
  std::vector<Datum> rows;
  for (auto &[name, operands] : operandsOf) {
    int64_t size = operands.size();
    rows.push_back(data.fields({data.string(name), data.array("operands", std::move(operands)),
                                data.i32(size), data.i32(0)}));
  }
  count = rows.size();
  return data.array("kernels", std::move(rows));
}
