//===- DistOps.cpp - Syntax shared by the ops of dist ---------------------===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace shale;
using namespace shale::dist;

/// `<["fsdp"=2, "tp"=2]>`
static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &axes,
                                 DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> names;
  SmallVector<int64_t> counts;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(counts.emplace_back()))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    return success();
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return failure();
  axes = parser.getBuilder().getArrayAttr(names);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(counts);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, MeshOp, ArrayAttr axes,
                          DenseI64ArrayAttr sizes) {
  printer << "<[";
  llvm::interleaveComma(llvm::zip(axes, sizes.asArrayRef()), printer,
                        [&](auto axis) {
                          printer.printString(
                              cast<StringAttr>(std::get<0>(axis)).getValue());
                          printer << '=' << std::get<1>(axis);
                        });
  printer << "]>";
}

/// A plain number for an i64 attribute.
static ParseResult parseIndex(OpAsmParser &parser, IntegerAttr &index) {
  int64_t value;
  if (parser.parseInteger(value))
    return failure();
  index = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

static void printIndex(OpAsmPrinter &printer, Operation *, IntegerAttr index) {
  printer << index.getInt();
}

#define GET_OP_CLASSES
#include "dialects/dist/DistOps.cpp.inc"
