//===- DistOps.cpp - Syntax shared by the ops of dist ---------------------===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace shale;
using namespace shale::dist;

/// `<[shard "fsdp"=2, tensor "tp"=2]>`
static ParseResult parseMeshAxes(OpAsmParser &parser, ArrayAttr &axes, DenseI32ArrayAttr &kinds,
                                 DenseI64ArrayAttr &sizes) {
  SmallVector<Attribute> names;
  SmallVector<int32_t> numbers;
  SmallVector<int64_t> counts;
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    StringRef word;
    llvm::SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&word))
      return failure();
    std::optional<AxisKind> kind = symbolizeAxisKind(word);
    if (!kind)
      return parser.emitError(loc, "expected replica, shard, tensor or expert; got '")
             << word << "'";
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(counts.emplace_back()))
      return failure();
    names.push_back(parser.getBuilder().getStringAttr(name));
    numbers.push_back(int32_t(*kind));
    return success();
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return failure();
  axes = parser.getBuilder().getArrayAttr(names);
  kinds = parser.getBuilder().getDenseI32ArrayAttr(numbers);
  sizes = parser.getBuilder().getDenseI64ArrayAttr(counts);
  return success();
}

static void printMeshAxes(OpAsmPrinter &printer, MeshOp, ArrayAttr axes, DenseI32ArrayAttr kinds,
                          DenseI64ArrayAttr sizes) {
  printer << "<[";
  llvm::interleaveComma(llvm::zip(axes, kinds.asArrayRef(), sizes.asArrayRef()), printer,
                        [&](auto axis) {
                          auto [name, kind, size] = axis;
                          printer << stringifyAxisKind(AxisKind(kind)) << ' ';
                          printer.printString(cast<StringAttr>(name).getValue());
                          printer << '=' << size;
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
