//===- Cluster.cpp - Ops that become one kernel ---------------------------===//
#include "dialects/nn/NN.h"
#include "llvm/ADT/SmallBitVector.h"

using namespace mlir;
using namespace shale::nn;

// nn.cluster (%x = %0 : tensor<4xf32>, ...) -> (tensor<4xf32>, ...) aliases [0] attributes {...} { ... }

ParseResult ClusterOp::parse(OpAsmParser &parser, OperationState &state) {
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  auto parseOne = [&]() -> ParseResult {
    OpAsmParser::Argument &argument = arguments.emplace_back();
    if (parser.parseArgument(argument) || parser.parseEqual() ||
        parser.parseOperand(operands.emplace_back()) || parser.parseColonType(argument.type))
      return failure();
    return success();
  };
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parseOne) ||
      parser.parseArrowTypeList(state.types))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("aliases"))) {
    DenseI64ArrayAttr aliases;
    if (parser.parseCustomAttributeWithFallback(aliases, Type()))
      return failure();
    state.addAttribute(getAliasesAttrName(state.name), aliases);
  }
  if (parser.parseOptionalAttrDictWithKeyword(state.attributes))
    return failure();
  SmallVector<Type> types = llvm::map_to_vector(
      arguments, [](const OpAsmParser::Argument &a) { return a.type; });
  if (parser.resolveOperands(operands, types, loc, state.operands))
    return failure();
  Region *body = state.addRegion();
  if (parser.parseRegion(*body, arguments))
    return failure();
  ensureTerminator(*body, parser.getBuilder(), state.location);
  return success();
}

void ClusterOp::print(OpAsmPrinter &printer) {
  printer << " (";
  if (!getBody().empty())
    llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()), printer, [&](auto pair) {
      printer << std::get<0>(pair) << " = " << std::get<1>(pair) << " : " << std::get<1>(pair).getType();
    });
  printer << ")";
  printer.printArrowTypeList(getResultTypes());
  if (DenseI64ArrayAttr aliases = getAliasesAttr()) {
    printer << " aliases ";
    printer.printStrippedAttrOrType(aliases);
  }
  printer.printOptionalAttrDictWithKeyword((*this)->getAttrs(), {getAliasesAttrName()});
  printer << " ";
  printer.printRegion(getBody(), /*printEntryBlockArgs=*/false);
}

LogicalResult ClusterOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes()) // cluster_c1
    return emitOpError() << "block arguments must have the operands' types";
  auto yield = cast<YieldOp>(block.getTerminator());
  if (yield.getOperandTypes() != getResultTypes()) // cluster_c2
    return emitOpError() << "yield must have the results' types";
  if (auto aliases = getAliases()) { // cluster_c3
    if (aliases->size() != getNumResults())
      return emitOpError() << "aliases must have one entry per result; got " << aliases->size()
                           << " for " << getNumResults();
    llvm::SmallBitVector taken(getNumOperands());
    for (auto [result, alias] : llvm::enumerate(*aliases)) {
      if (alias == -1)
        continue;
      if (alias < 0 || alias >= int64_t(getNumOperands()) || taken.test(alias) ||
          getOperand(alias).getType() != getResult(result).getType())
        return emitOpError() << "alias " << alias << " of result " << result
                             << " must be an operand of the same type that no other result takes";
      taken.set(alias);
    }
  }
  return success();
}
