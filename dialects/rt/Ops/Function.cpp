//===- Function.cpp - Functions and kernels -------------------------------===//
#include "dialects/nn/Bindings.h"
#include "dialects/nn/Ops/Aliases.h"
#include "dialects/rt/RT.h"

using namespace mlir;
using namespace shale;
using namespace shale::rt;

LogicalResult FuncOp::verify() {
  for (Attribute input : getInputs()) { // func_c1
    auto entry = dyn_cast<DictionaryAttr>(input);
    auto type = entry ? entry.getAs<TypeAttr>("type") : TypeAttr();
    auto binding = entry ? entry.getAs<StringAttr>("binding") : StringAttr();
    if (!binding || !nn::findBinding(binding.getValue()) || !entry.getAs<StringAttr>("name") ||
        !entry.getAs<IntegerAttr>("batch_dim") || !type || !isa<RankedTensorType>(type.getValue()))
      return emitOpError() << "an input needs name, binding, type and batch_dim; got " << input;
    Attribute bound = entry.get("bound"), ignored = entry.get("ignored"); // func_c2
    auto size = dyn_cast_or_null<IntegerAttr>(bound);
    if ((bound && (!size || size.getInt() < 1)) ||
        (ignored && (!size || !isa<IntegerAttr>(ignored))))
      return emitOpError()
             << "an input's bound must be positive, and ignored an integer beside it; got "
             << input;
  }
  return success();
}

// rt.kernel @k(%a: tensor<4xf32>) -> (tensor<4xf32>) aliases [0] attributes {rows = 4} { ... }

ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &state) {
  StringAttr name;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<Type> results;
  if (parser.parseSymbolName(name, getSymNameAttrName(state.name), state.attributes) ||
      parser.parseArgumentList(arguments, AsmParser::Delimiter::Paren, /*allowType=*/true) ||
      parser.parseArrowTypeList(results))
    return failure();
  SmallVector<Type> inputs = llvm::map_to_vector(
      arguments, [](const OpAsmParser::Argument &argument) { return argument.type; });
  state.addAttribute(getFunctionTypeAttrName(state.name),
                     TypeAttr::get(parser.getBuilder().getFunctionType(inputs, results)));
  if (nn::parseKernelBody(parser, state, getAliasesAttrName(state.name), arguments))
    return failure();
  ensureTerminator(*state.regions.back(), parser.getBuilder(), state.location);
  return success();
}

void KernelOp::print(OpAsmPrinter &printer) {
  printer << ' ';
  printer.printSymbolName(getSymName());
  printer << '(';
  if (!getBody().empty())
    llvm::interleaveComma(getBody().getArguments(), printer,
                          [&](BlockArgument argument) { printer.printRegionArgument(argument); });
  printer << ')';
  printer.printArrowTypeList(getFunctionType().getResults());
  nn::printKernelBody(printer, *this, getAliasesAttr(),
                      {getSymNameAttrName(), getFunctionTypeAttrName(), getAliasesAttrName()});
}

LogicalResult KernelOp::verify() {
  FunctionType type = getFunctionType();
  for (Type value : llvm::concat<const Type>(type.getInputs(), type.getResults())) { // kernel_c1
    auto tensor = dyn_cast<RankedTensorType>(value);
    if (!tensor || !tensor.hasStaticShape() || shale::nn::tensorBytes(tensor) < 0)
      return emitOpError() << "a buffer cannot hold " << value;
  }
  Block &block = getBody().front();
  if (block.getArgumentTypes() != type.getInputs()) // kernel_c2
    return emitOpError() << "the region's arguments must have the types " << type.getInputs();
  if (block.getTerminator()->getOperandTypes() != type.getResults())
    return emitOpError() << "yield must have the types " << type.getResults();
  if (auto aliases = getAliases()) // kernel_c3
    return nn::verifyAliases(*this, *aliases, type.getInputs(), type.getResults(), "argument");
  return success();
}
