//===- DistAttrs.cpp - Attributes, enums and types of dist ----------------===//
#include "dialects/dist/Dist.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace shale::dist;

#include "dialects/dist/DistEnums.cpp.inc"

/// `[4, 8]`
static ParseResult parseShape(AsmParser &parser, DenseI64ArrayAttr &shape) {
  SmallVector<int64_t> sizes;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parser.parseInteger(sizes.emplace_back()); }))
    return failure();
  shape = DenseI64ArrayAttr::get(parser.getContext(), sizes);
  return success();
}

static void printShape(AsmPrinter &printer, DenseI64ArrayAttr shape) {
  printer << '[';
  llvm::interleaveComma(shape.asArrayRef(), printer);
  printer << ']';
}

#define GET_ATTRDEF_CLASSES
#include "dialects/dist/DistAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/dist/DistTypes.cpp.inc"

void DistDialect::registerAttributesAndTypes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/dist/DistAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/dist/DistTypes.cpp.inc"
      >();
}

//===- Sharding -----------------------------------------------------------===//

ShardingAttr ShardingAttr::replicated(MLIRContext *context, int64_t rank) {
  SmallVector<Attribute> dims(rank, ArrayAttr::get(context, {}));
  return get(context, ArrayAttr::get(context, dims), DictionaryAttr::get(context));
}

SmallVector<StringRef, 2> ShardingAttr::getAxes(int64_t dim) const {
  SmallVector<StringRef, 2> axes;
  for (Attribute axis : cast<ArrayAttr>(getDims()[dim]))
    axes.push_back(cast<StringAttr>(axis).getValue());
  return axes;
}

int64_t ShardingAttr::getDimOf(StringRef axis) const {
  for (int64_t dim = 0; dim < getRank(); ++dim)
    if (llvm::is_contained(getAxes(dim), axis))
      return dim;
  return -1;
}

std::optional<Reduction> ShardingAttr::getPartialOn(StringRef axis) const {
  if (auto kind = getPartial().getAs<ReductionAttr>(axis))
    return kind.getValue();
  return std::nullopt;
}

bool ShardingAttr::isReplicated() const {
  return getPartial().empty() &&
         llvm::all_of(getDims(), [](Attribute dim) { return cast<ArrayAttr>(dim).empty(); });
}

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError, ArrayAttr dims,
                                   DictionaryAttr partial) {
  llvm::StringSet<> seen;
  for (Attribute dim : dims) {
    auto axes = dyn_cast<ArrayAttr>(dim);
    if (!axes)
      return emitError() << "each dimension must be a list of axes";
    for (Attribute axis : axes) {
      auto name = dyn_cast<StringAttr>(axis);
      if (!name || name.getValue().empty())
        return emitError() << "an axis must be a name";
      if (!seen.insert(name.getValue()).second)
        return emitError() << "axis '" << name.getValue() << "' is named twice";
    }
  }
  for (NamedAttribute part : partial) {
    if (!isa<ReductionAttr>(part.getValue()))
      return emitError() << "the reduction of a partial value must be sum or max";
    if (!seen.insert(part.getName().getValue()).second)
      return emitError() << "axis '" << part.getName().getValue() << "' is named twice";
  }
  return success();
}

/// `<[{"fsdp"}, {}], partial = {"tp": sum}>`
Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  MLIRContext *context = parser.getContext();
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<Attribute> dims;
  auto parseDim = [&]() -> ParseResult {
    SmallVector<Attribute> axes;
    if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&]() -> ParseResult {
          std::string axis;
          if (parser.parseString(&axis))
            return failure();
          axes.push_back(StringAttr::get(context, axis));
          return success();
        }))
      return failure();
    dims.push_back(ArrayAttr::get(context, axes));
    return success();
  };
  if (parser.parseLess() || parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseDim))
    return {};
  SmallVector<NamedAttribute> partial;
  llvm::StringSet<> names;
  auto parsePart = [&]() -> ParseResult {
    std::string axis;
    StringRef kind;
    SMLoc at = parser.getCurrentLocation();
    if (parser.parseString(&axis) || parser.parseColon() || parser.parseKeyword(&kind))
      return failure();
    std::optional<Reduction> reduction = symbolizeReduction(kind);
    if (!reduction)
      return parser.emitError(at, "the reduction of a partial value must be sum or max");
    if (axis.empty() || !names.insert(axis).second)
      return parser.emitError(at, "axis '") << axis << "' is empty or named twice";
    partial.emplace_back(StringAttr::get(context, axis), ReductionAttr::get(context, *reduction));
    return success();
  };
  if (succeeded(parser.parseOptionalComma()))
    if (parser.parseKeyword("partial") || parser.parseEqual() ||
        parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, parsePart))
      return {};
  if (parser.parseGreater())
    return {};
  return getChecked([&] { return parser.emitError(loc); }, context, ArrayAttr::get(context, dims),
                    DictionaryAttr::get(context, partial));
}

void ShardingAttr::print(AsmPrinter &printer) const {
  auto printName = [&](StringRef name) { printer.printString(name); };
  printer << "<[";
  llvm::interleaveComma(getDims(), printer, [&](Attribute dim) {
    printer << '{';
    llvm::interleaveComma(cast<ArrayAttr>(dim), printer,
                          [&](Attribute axis) { printName(cast<StringAttr>(axis).getValue()); });
    printer << '}';
  });
  printer << ']';
  if (!getPartial().empty()) {
    printer << ", partial = {";
    llvm::interleaveComma(getPartial(), printer, [&](NamedAttribute part) {
      printName(part.getName().getValue());
      printer << ": " << stringifyReduction(cast<ReductionAttr>(part.getValue()).getValue());
    });
    printer << '}';
  }
  printer << '>';
}

//===- Segments and groups ------------------------------------------------===//

int64_t SegmentAttr::getCount() const {
  int64_t count = 1;
  for (int64_t size : getShape().asArrayRef())
    if (size < 0 || llvm::MulOverflow(count, size, count))
      return -1;
  return count;
}

SegmentAttr GroupAttr::getSegment(StringRef param) const {
  for (Attribute entry : getSegments())
    if (auto segment = dyn_cast<SegmentAttr>(entry))
      if (segment.getParam().getValue() == param)
        return segment;
  return {};
}
