//===- CallBuilder.cpp - Builds calls of the runtime ----------------------===//
#include "passes/program/CallBuilder.h"

using namespace mlir;
using namespace shale;

Value CallBuilder::text(StringRef string) {
  std::string symbol = ("shale_name_" + string).str();
  if (texts.insert(symbol).second && !module.lookupSymbol<LLVM::GlobalOp>(symbol)) {
    InsertionGuard guard(*this);
    setInsertionPointToStart(module.getBody());
    std::string bytes = string.str() + '\0';
    LLVM::GlobalOp::create(*this, module.getLoc(),
                           LLVM::LLVMArrayType::get(getI8Type(), bytes.size()), true,
                           LLVM::Linkage::Private, symbol, getStringAttr(bytes));
  }
  return LLVM::AddressOfOp::create(*this, pointer(), symbol);
}
