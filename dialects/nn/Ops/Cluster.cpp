//===- Cluster.cpp - Ops that become one kernel ---------------------------===//
#include "dialects/nn/Ops/Cluster.h"
#include "dialects/nn/Ops/Aliases.h"

using namespace mlir;
using namespace shale::nn;

// nn.cluster (%x = %0 : tensor<4xf32>, ...) -> (tensor<4xf32>, ...) aliases [0] attributes {...} {
// ... }

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
  SmallVector<Type> types =
      llvm::map_to_vector(arguments, [](const OpAsmParser::Argument &a) { return a.type; });
  auto resolve = [&] { return parser.resolveOperands(operands, types, loc, state.operands); };
  if (parseKernelBody(parser, state, getAliasesAttrName(state.name), arguments, resolve))
    return failure();
  ensureTerminator(*state.regions.back(), parser.getBuilder(), state.location);
  return success();
}

void ClusterOp::print(OpAsmPrinter &printer) {
  printer << " (";
  if (!getBody().empty())
    llvm::interleaveComma(llvm::zip(getBody().getArguments(), getInputs()), printer,
                          [&](auto pair) {
                            printer << std::get<0>(pair) << " = " << std::get<1>(pair) << " : "
                                    << std::get<1>(pair).getType();
                          });
  printer << ")";
  printer.printArrowTypeList(getResultTypes());
  printKernelBody(printer, *this, getAliasesAttr(), {getAliasesAttrName()});
}

LogicalResult ClusterOp::verify() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes()) // cluster_c1
    return emitOpError() << "block arguments must have the operands' types";
  auto yield = cast<YieldOp>(block.getTerminator());
  if (yield.getOperandTypes() != getResultTypes()) // cluster_c2
    return emitOpError() << "yield must have the results' types";
  if (auto aliases = getAliases()) // cluster_c3
    return verifyAliases(*this, *aliases, getOperandTypes(), getResultTypes(), "operand");
  return success();
}

//===- Generated definitions ----------------------------------------------===//

#define GET_OP_CLASSES
#include "dialects/nn/Ops/Cluster.cpp.inc"

void shale::nn::registerClusterOps(NNDialect &dialect) {
  dialect.addFamily<
#define GET_OP_LIST
#include "dialects/nn/Ops/Cluster.cpp.inc"
      >();
}
