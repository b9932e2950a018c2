//===- MemDialect.cpp - The mem dialect and its ops -----------------------===//
#include "dialects/interfaces/DiscardableAttrs.h"
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

static bool isHost(Operation *, StringAttr space) {
  return shale::mem::symbolizeMemory(space.getValue()) == shale::mem::Memory::Host;
}

static bool areNames(Operation *, ArrayAttr names) {
  return llvm::all_of(names, llvm::IsaPred<StringAttr>);
}

static bool isCount(Operation *, IntegerAttr flops) { return !flops.getValue().isNegative(); }

using Mem = shale::mem::MemDialect;
static constexpr shale::AttrRule kRules[] = {
    shale::attrRule<Mem::RecomputeAttrHelper>("be a unit attribute"),
    shale::attrRule<Mem::RecomputedAttrHelper>("be a unit attribute"),
    shale::attrRule<Mem::RecomputesAttrHelper, areNames>("be a list of names"),
    shale::attrRule<Mem::OffloadAttrHelper>("be a unit attribute"),
    shale::attrRule<Mem::SpaceAttrHelper, isHost>("be \"host\""),
    shale::attrRule<Mem::RecomputeFlopsAttrHelper, isCount>("be a number of operations")};

LogicalResult shale::mem::MemDialect::verifyOperationAttribute(Operation *op,
                                                               NamedAttribute attribute) {
  return verifyDiscardableAttr(op, attribute, kRules);
}
