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

#define GET_OP_CLASSES
#include "dialects/rt/RTOps.cpp.inc"
