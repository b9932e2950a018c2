//===- Aliases.cpp - Results that reuse operands' buffers -----------------===//
#include "dialects/nn/Ops/Aliases.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;

ParseResult shale::nn::parseKernelBody(OpAsmParser &parser, OperationState &state,
                                       StringAttr aliasesName,
                                       ArrayRef<OpAsmParser::Argument> arguments,
                                       llvm::function_ref<ParseResult()> afterAttributes) {
  if (succeeded(parser.parseOptionalKeyword("aliases"))) {
    DenseI64ArrayAttr aliases;
    if (parser.parseCustomAttributeWithFallback(aliases, Type()))
      return failure();
    state.addAttribute(aliasesName, aliases);
  }
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes) ||
      (afterAttributes && afterAttributes()))
    return failure();
  return parser.parseRegion(*state.addRegion(), arguments);
}

void shale::nn::printKernelBody(OpAsmPrinter &printer, Operation *op, DenseI64ArrayAttr aliases,
                                ArrayRef<StringRef> elided) {
  if (aliases) {
    printer << " aliases ";
    printer.printStrippedAttrOrType(aliases);
  }
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(), elided);
  printer << ' ';
  printer.printRegion(op->getRegion(0), /*printEntryBlockArgs=*/false);
}

LogicalResult shale::nn::verifyAliases(Operation *op, ArrayRef<int64_t> aliases, TypeRange inputs,
                                       TypeRange results, StringRef what) {
  if (aliases.size() != results.size())
    return op->emitOpError() << "aliases must have one entry per result; got " << aliases.size()
                             << " for " << results.size();
  llvm::SmallBitVector taken(inputs.size());
  for (auto [result, alias] : llvm::enumerate(aliases)) {
    if (alias == -1)
      continue;
    if (alias < 0 || alias >= int64_t(inputs.size()) || taken.test(alias) ||
        inputs[alias] != results[result])
      return op->emitOpError() << "alias " << alias << " of result " << result << " must be an "
                               << what << " of the same type that no other result takes";
    taken.set(alias);
  }
  return success();
}
