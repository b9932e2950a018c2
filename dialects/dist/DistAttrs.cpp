//===- DistAttrs.cpp - Attributes, enums and types of dist ----------------===//
#include "dialects/dist/Dist.h"
#include "dialects/interfaces/Blocks.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace shale;
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

/// An entry of a dimension: an axis and the number of blocks.
static std::pair<StringAttr, int64_t> readEntry(Attribute attr) {
  if (auto pair = dyn_cast<ArrayAttr>(attr))
    if (pair.size() == 2)
      if (auto blocks = dyn_cast<IntegerAttr>(pair[1]); blocks && blocks.getType().isInteger(64))
        return {dyn_cast<StringAttr>(pair[0]), blocks.getInt()};
  return {dyn_cast<StringAttr>(attr), 1};
}

Attribute ShardingAttr::entryOf(StringAttr axis, int64_t blocks) {
  Builder builder(axis.getContext());
  return blocks == 1 ? Attribute(axis)
                     : builder.getArrayAttr({axis, builder.getI64IntegerAttr(blocks)});
}

SmallVector<StringRef, 2> ShardingAttr::getAxes(int64_t dim) const {
  SmallVector<StringRef, 2> axes;
  for (Attribute axis : cast<ArrayAttr>(getDims()[dim]))
    axes.push_back(readEntry(axis).first.getValue());
  return axes;
}

SmallVector<int64_t, 2> ShardingAttr::getBlocks(int64_t dim) const {
  SmallVector<int64_t, 2> blocks;
  for (Attribute axis : cast<ArrayAttr>(getDims()[dim]))
    blocks.push_back(readEntry(axis).second);
  return blocks;
}

bool ShardingAttr::isContiguous() const {
  return llvm::all_of(getDims(), [](Attribute dim) {
    return llvm::all_of(cast<ArrayAttr>(dim), llvm::IsaPred<StringAttr>);
  });
}

LogicalResult ShardingAttr::verifyFits(Operation *op, Type type) const {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || tensor.getRank() != getRank())
    return op->emitOpError("sharding ")
           << *this << " has rank " << getRank() << ", the value is of type " << type;
  MeshOp mesh = getMesh(op);
  if (!mesh)
    return success(); // a fragment without mesh: nothing to check against
  for (int64_t dim = 0; dim < getRank(); ++dim) {
    SmallVector<int64_t> local{tensor.getDimSize(dim)};
    for (auto [axis, blocks] : llvm::zip_equal(getAxes(dim), getBlocks(dim))) {
      int64_t count = mesh.getSize(axis);
      if (count == 0)
        return op->emitOpError("the mesh has no axis '") << axis << "'";
      if (splitBlocks(local, blocks, count) >= 0)
        continue;
      InFlightDiagnostic diag = op->emitOpError("dimension ")
                                << dim << " of " << type << " does not divide over axis '" << axis
                                << "' of size " << count;
      if (blocks > 1)
        diag << " in " << blocks << " blocks";
      return diag;
    }
  }
  for (NamedAttribute part : getPartial())
    if (mesh.getSize(part.getName()) == 0)
      return op->emitOpError("the mesh has no axis '") << part.getName() << "'";
  return success();
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
      auto [name, blocks] = readEntry(axis);
      if (!name || name.getValue().empty())
        return emitError() << "an axis must be a name";
      if (name.getValue().contains(kJoin))
        return emitError() << "'" << name.getValue() << "' joins axes: name each of them";
      if (isa<ArrayAttr>(axis) && blocks < 2)
        return emitError() << "axis '" << name.getValue() << "' needs two blocks or more";
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

//===- Storage ------------------------------------------------------------===//

/// `<["fsdp"] scatter as int8>`
Attribute ReductionStepAttr::parse(AsmParser &parser, Type) {
  ArrayAttr axes;
  EncodingAttr encoding;
  if (parser.parseLess() || parser.parseAttribute(axes))
    return {};
  bool scatter = succeeded(parser.parseOptionalKeyword("scatter"));
  if (succeeded(parser.parseOptionalKeyword("as"))) {
    SMLoc at = parser.getCurrentLocation();
    StringRef word;
    if (parser.parseKeyword(&word))
      return {};
    std::optional<Encoding> known = symbolizeEncoding(word);
    if (!known) {
      parser.emitError(at, "'") << word << "' is no encoding";
      return {};
    }
    encoding = EncodingAttr::get(parser.getContext(), *known);
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<ReductionStepAttr>(parser.getContext(), axes, scatter, encoding);
}

void ReductionStepAttr::print(AsmPrinter &printer) const {
  printer << '<' << getAxes();
  if (getScatter())
    printer << " scatter";
  if (getEncoding())
    printer << " as " << stringifyEncoding(getEncoding().getValue());
  printer << '>';
}

LogicalResult ReductionStepAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                                        ArrayAttr axes, bool, EncodingAttr) {
  if (axes.empty() || !llvm::all_of(axes, llvm::IsaPred<StringAttr>))
    return emitError() << "a step of a reduction needs the names of its axes, got " << axes;
  return success();
}

LogicalResult StorageAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError, Use, Type,
                                  StringAttr, StringAttr, StringAttr, EncodingAttr,
                                  ArrayAttr steps) {
  if (!llvm::all_of(steps, llvm::IsaPred<ReductionStepAttr>))
    return emitError() << "steps of a storage are #dist.reduction_step, got " << steps;
  return success();
}

int64_t StorageAttr::getBlock() const {
  int64_t block = getGather() ? blockOf(getGather().getValue()).elements : 1;
  for (auto step : getSteps().getAsRange<ReductionStepAttr>())
    if (step.getEncoding())
      block = std::lcm(block, blockOf(step.getEncoding().getValue()).elements);
  return block;
}

bool StorageAttr::encodesSums() const {
  return llvm::any_of(getSteps().getAsRange<ReductionStepAttr>(),
                      [](ReductionStepAttr step) { return bool(step.getEncoding()); });
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
          auto name = StringAttr::get(context, axis);
          SMLoc at = parser.getCurrentLocation();
          int64_t blocks = 1;
          if (succeeded(parser.parseOptionalKeyword("in"))) {
            if (parser.parseInteger(blocks))
              return failure();
            if (blocks < 2)
              return parser.emitError(at, "axis '") << axis << "' needs two blocks or more";
          }
          axes.push_back(entryOf(name, blocks));
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
    llvm::interleaveComma(cast<ArrayAttr>(dim), printer, [&](Attribute axis) {
      auto [name, blocks] = readEntry(axis);
      printName(name.getValue());
      if (blocks > 1)
        printer << " in " << blocks;
    });
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
