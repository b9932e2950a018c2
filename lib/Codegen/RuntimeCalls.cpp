//===- RuntimeCalls.cpp - Calls of the runtime from compiled code ---------===//
#include "lib/Codegen/RuntimeCalls.h"

using namespace mlir;
using namespace shale;
using namespace shale::abi;

static Type typeOf(MLIRContext *context, CodeType type) {
  switch (type) {
  case CodeType::I32:
    return IntegerType::get(context, 32);
  case CodeType::I64:
    return IntegerType::get(context, 64);
  case CodeType::F32:
    return Float32Type::get(context);
  case CodeType::F64:
    return Float64Type::get(context);
  case CodeType::Pointer:
    return LLVM::LLVMPointerType::get(context);
  case CodeType::None:
    return LLVM::LLVMVoidType::get(context);
  }
  llvm_unreachable("unknown type of code");
}

Value abi::emitValue(OpBuilder &b, Location loc, const CodeValue &value, CodeType codeType) {
  Type type = typeOf(b.getContext(), codeType);
  switch (value.kind) {
  case CodeValue::Code:
    return value.code;
  case CodeValue::Null:
    return LLVM::ZeroOp::create(b, loc, type);
  case CodeValue::Integer:
    return LLVM::ConstantOp::create(b, loc, type, b.getIntegerAttr(type, value.integer));
  case CodeValue::Float:
    return LLVM::ConstantOp::create(b, loc, type, b.getFloatAttr(type, value.number));
  case CodeValue::Unset:
    break;
  }
  llvm_unreachable("a field that is not set");
}

void abi::emitStore(OpBuilder &b, Location loc, Value base, int64_t offset, const CodeValue &value,
                    CodeType type) {
  Type pointer = LLVM::LLVMPointerType::get(b.getContext());
  Value at = base;
  if (offset != 0)
    at = LLVM::GEPOp::create(b, loc, pointer, b.getI8Type(), base,
                             ArrayRef<LLVM::GEPArg>{int32_t(offset)});
  LLVM::StoreOp::create(b, loc, emitValue(b, loc, value, type), at);
}

Value abi::emitCall(OpBuilder &b, Location loc, ModuleOp module, StringRef name, CodeType result,
                    ArrayRef<std::pair<CodeValue, CodeType>> arguments) {
  SmallVector<Type> types;
  SmallVector<Value> values;
  for (auto [value, type] : arguments) {
    types.push_back(typeOf(b.getContext(), type));
    values.push_back(emitValue(b, loc, value, type));
  }
  auto callee = module.lookupSymbol<LLVM::LLVMFuncOp>(name);
  if (!callee) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    callee = LLVM::LLVMFuncOp::create(
        b, module.getLoc(), name,
        LLVM::LLVMFunctionType::get(typeOf(b.getContext(), result), types));
  }
  auto call = LLVM::CallOp::create(b, loc, callee, values);
  return call->getNumResults() ? call->getResult(0) : Value();
}
