//===- MemDialect.cpp - The mem dialect and its ops -----------------------===//
#include "dialects/mem/Mem.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;

#include "dialects/mem/MemDialect.cpp.inc"

#include "dialects/mem/MemEnums.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/mem/MemOps.cpp.inc"

void shale::mem::MemDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "dialects/mem/MemOps.cpp.inc"
      >();
}

shale::ViewPlace shale::mem::BarrierOp::getViewPlace(unsigned number) { return {number}; }

shale::mem::Memory shale::mem::getHome(Operation *state) {
  auto space = state->getAttrOfType<StringAttr>(kSpaceAttr);
  return space ? symbolizeMemory(space.getValue()).value_or(Memory::Device) : Memory::Device;
}

void shale::mem::setHome(Operation *state, Memory memory) {
  if (memory == Memory::Device)
    state->removeAttr(kSpaceAttr);
  else
    state->setAttr(kSpaceAttr, StringAttr::get(state->getContext(), stringifyMemory(memory)));
}

LogicalResult shale::mem::MemDialect::verifyOperationAttribute(Operation *op,
                                                               NamedAttribute attribute) {
  if (attribute.getName() == kRecomputeAttr || attribute.getName() == kRecomputedAttr ||
      attribute.getName() == kOffloadAttr) {
    if (!isa<UnitAttr>(attribute.getValue()))
      return op->emitOpError("'") << attribute.getName().strref() << "' must be a unit attribute";
    return success();
  }
  if (attribute.getName() == kSpaceAttr) {
    auto space = dyn_cast<StringAttr>(attribute.getValue());
    if (!space || symbolizeMemory(space.getValue()) != Memory::Host)
      return op->emitOpError("'mem.space' must be \"host\"");
    return success();
  }
  if (attribute.getName() == kRecomputeFlopsAttr) {
    auto flops = dyn_cast<IntegerAttr>(attribute.getValue());
    if (!flops || flops.getValue().isNegative())
      return op->emitOpError("'mem.recompute_flops' must be a number of operations");
    return success();
  }
  return op->emitOpError("'") << attribute.getName().strref() << "' is not an attribute of mem";
}
