//===- RTOps.cpp - Generated definitions of the ops of rt -----------------===//
#include "dialects/rt/RT.h"

using namespace mlir;

/// Parses the memory of a slot or buffer; device memory is not spelled.
static OptionalParseResult parseMemory(OpAsmParser &parser, shale::mem::MemoryAttr &memory) {
  StringRef host = stringifyMemory(shale::mem::Memory::Host);
  if (failed(parser.parseOptionalKeyword(host)))
    return std::nullopt;
  memory = shale::mem::MemoryAttr::get(parser.getContext(), shale::mem::Memory::Host);
  return success();
}

static void printMemory(OpAsmPrinter &printer, Operation *, shale::mem::MemoryAttr memory) {
  printer << stringifyMemory(memory.getValue());
}

/// `all_gather`: the name of a kind of collective.
static ParseResult parseCollectiveKind(OpAsmParser &parser, IntegerAttr &kind) {
  SMLoc at = parser.getCurrentLocation();
  StringRef word;
  if (parser.parseKeyword(&word))
    return failure();
  std::string name = word.str();
  llvm::replace(name, '_', '-');
  const auto *known =
      llvm::find_if(shale::kCollectives, [&](const auto &each) { return each.name == name; });
  if (known == std::end(shale::kCollectives))
    return parser.emitError(at, "'") << word << "' is no kind of collective";
  kind = parser.getBuilder().getI64IntegerAttr(int64_t(known->kind));
  return success();
}

static void printCollectiveKind(OpAsmPrinter &printer, Operation *, IntegerAttr kind) {
  uint64_t number = kind.getInt();
  std::string name = number < std::size(shale::kCollectives)
                         ? shale::kCollectives[number].name.str()
                         : std::to_string(number); // not verified yet
  llvm::replace(name, '-', '_');
  printer << name;
}

#define GET_OP_CLASSES
#include "dialects/rt/RTOps.cpp.inc"
