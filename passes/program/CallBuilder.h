//===- CallBuilder.h - Builds calls of the runtime ------------------------===//
#ifndef SHALE_PASSES_PROGRAM_CALLBUILDER_H
#define SHALE_PASSES_PROGRAM_CALLBUILDER_H

#include "lib/Codegen/RuntimeCalls.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

namespace shale {

/// Builds calls of the runtime, and their operands, in one function of type ShaleFunction. Begins
/// at the end of its entry block.
class CallBuilder : public mlir::ImplicitLocOpBuilder {
public:
  /// The arguments of the function.
  enum Argument { Rank, State, Arena, Inputs, Hyper, Metrics };

  CallBuilder(mlir::ModuleOp module, mlir::LLVM::LLVMFuncOp function)
      : ImplicitLocOpBuilder(function.getLoc(), module.getContext()), module(module),
        function(function) {
    setInsertionPointToEnd(&function.getBody().front());
  }

  mlir::Value argument(Argument index) { return function.getArgument(index); }
  mlir::Type pointer() { return mlir::LLVM::LLVMPointerType::get(getContext()); }
  mlir::Value i64(int64_t value) {
    return mlir::LLVM::ConstantOp::create(*this, getI64Type(), getI64IntegerAttr(value));
  }
  /// Return the address that lies `bytes` behind another one.
  mlir::Value advance(mlir::Value address, int64_t bytes) {
    return bytes == 0 ? address : advanceBy(address, i64(bytes));
  }
  mlir::Value advanceBy(mlir::Value address, mlir::Value bytes) {
    return mlir::LLVM::GEPOp::create(*this, pointer(), getI8Type(), address,
                                     llvm::ArrayRef<mlir::LLVM::GEPArg>{bytes});
  }
  /// Returns the address of a NUL-terminated string for messages of the runtime.
  mlir::Value text(llvm::StringRef string);

  /// Returns what `build` builds at the top of the function.
  mlir::Value atTop(llvm::function_ref<mlir::Value()> build) {
    InsertionGuard guard(*this);
    setInsertionPointToStart(&function.getBody().front());
    return build();
  }
  /// Calls the runtime for this rank.
  template <typename Call> mlir::Value call(Call &&arguments) {
    arguments.rank = argument(Rank);
    return emitCall(*this, getLoc(), module, arguments);
  }
  /// Writes the operands of a call to memory of the function, which all calls with this struct
  /// share, and returns its address.
  template <typename Struct> mlir::Value operands(const abi::Operands<Struct> &fields) {
    mlir::Value &memory = operandMemory[abi::kName<Struct>];
    if (!memory)
      memory = atTop([&] {
        return mlir::LLVM::AllocaOp::create(*this, pointer(), getI8Type(), i64(sizeof(Struct)),
                                            /*alignment=*/8);
      });
    abi::emitFields<Struct>(*this, getLoc(), memory, fields);
    return memory;
  }

private:
  mlir::ModuleOp module;
  mlir::LLVM::LLVMFuncOp function;
  llvm::StringMap<mlir::Value> operandMemory; // by struct
  llvm::StringSet<> texts;
};

} // namespace shale

#endif // SHALE_PASSES_PROGRAM_CALLBUILDER_H
