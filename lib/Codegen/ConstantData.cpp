//===- ConstantData.cpp - C structs as LLVM constants ---------------------===//
#include "lib/Codegen/ConstantData.h"

using namespace mlir;
using namespace shale;

ConstantData::ConstantData(ModuleOp module, StringRef prefix)
    : module(module), prefix(prefix), builder(module.getContext()),
      pointer(LLVM::LLVMPointerType::get(module.getContext())) {}

Datum ConstantData::integer(Type type, int64_t value) {
  Datum datum;
  datum.kind = Datum::Integer;
  datum.type = type;
  datum.integer = value;
  return datum;
}

Datum ConstantData::number(Type type, double value) {
  Datum datum;
  datum.kind = Datum::Float;
  datum.type = type;
  datum.number = value;
  return datum;
}

Datum ConstantData::null() {
  Datum datum;
  datum.type = pointer;
  return datum;
}

Datum ConstantData::address(StringRef symbol) {
  Datum datum;
  datum.kind = Datum::Address;
  datum.type = pointer;
  datum.global = symbol.str();
  return datum;
}

Datum ConstantData::string(StringRef text) {
  auto [it, added] = strings.try_emplace(text, "");
  if (added) {
    it->second = prefix + "_text_" + std::to_string(strings.size() - 1);
    std::string bytes = text.str() + '\0';
    builder.setInsertionPointToEnd(module.getBody());
    auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
    LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/true,
                           LLVM::Linkage::Private, it->second, builder.getStringAttr(bytes));
  }
  return address(it->second);
}

Datum ConstantData::fields(std::vector<Datum> values) {
  Datum datum;
  datum.kind = Datum::Fields;
  SmallVector<Type> types;
  for (const Datum &value : values)
    types.push_back(value.type);
  datum.type = LLVM::LLVMStructType::getLiteral(module.getContext(), types);
  datum.fields = std::move(values);
  return datum;
}

Datum ConstantData::array(StringRef name, std::vector<Datum> values) {
  if (values.empty())
    return null();
  Datum datum;
  datum.kind = Datum::Fields;
  datum.type = LLVM::LLVMArrayType::get(values.front().type, values.size());
  datum.fields = std::move(values);
  std::string symbol = (prefix + "_" + name + "_" + std::to_string(arrays++)).str();
  define(symbol, datum, LLVM::Linkage::Private);
  return address(symbol);
}

Value ConstantData::emit(OpBuilder &at, const Datum &value) {
  Location loc = module.getLoc();
  switch (value.kind) {
  case Datum::Integer:
    return LLVM::ConstantOp::create(at, loc, value.type,
                                    at.getIntegerAttr(value.type, value.integer));
  case Datum::Float:
    return LLVM::ConstantOp::create(at, loc, value.type, at.getFloatAttr(value.type, value.number));
  case Datum::Address:
    return LLVM::AddressOfOp::create(at, loc, pointer, value.global);
  case Datum::Null:
    return LLVM::ZeroOp::create(at, loc, pointer);
  case Datum::Fields:
    break;
  }
  Value result = LLVM::UndefOp::create(at, loc, value.type);
  for (auto [i, field] : llvm::enumerate(value.fields))
    result = LLVM::InsertValueOp::create(at, loc, result, emit(at, field),
                                         ArrayRef<int64_t>{int64_t(i)});
  return result;
}

LLVM::GlobalOp ConstantData::define(StringRef name, const Datum &value, LLVM::Linkage linkage) {
  builder.setInsertionPointToEnd(module.getBody());
  auto global = LLVM::GlobalOp::create(builder, module.getLoc(), value.type, /*isConstant=*/true,
                                       linkage, name, Attribute());
  OpBuilder at(global.getContext());
  at.createBlock(&global.getInitializerRegion());
  LLVM::ReturnOp::create(at, module.getLoc(), emit(at, value));
  return global;
}
