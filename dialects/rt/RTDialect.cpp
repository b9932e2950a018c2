//===- RTDialect.cpp - The rt dialect -------------------------------------===//
#include "dialects/dist/Dist.h"
#include "dialects/interfaces/DiscardableAttrs.h"
#include "dialects/rt/KernelCode.h"
#include "dialects/rt/RT.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace shale;
using namespace shale::rt;

#include "dialects/rt/RTDialect.cpp.inc"

#include "dialects/rt/RTEnums.cpp.inc"

#include "dialects/rt/RTInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/rt/RTAttrs.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "dialects/rt/RTTypes.cpp.inc"

void RTDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/rt/RTAttrs.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "dialects/rt/RTTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/rt/RTOps.cpp.inc"
      >();
}

/// Whether an attribute of an op is on a kernel and has the form of KernelCode.h.
static bool isKernelCode(Operation *op, DictionaryAttr code) {
  auto isNumber = [](Attribute value) {
    auto number = dyn_cast<IntegerAttr>(value);
    return number && !number.getValue().isNegative();
  };
  auto isUsage = [&](Attribute value) {
    auto usage = dyn_cast<DictionaryAttr>(value);
    return usage && usage.getAs<StringAttr>("architecture") &&
           llvm::all_of(usage, [&](NamedAttribute entry) {
             return entry.getName() == "architecture" || isNumber(entry.getValue());
           });
  };
  return isa<KernelOp>(op) && llvm::all_of(code, [&](NamedAttribute entry) {
           if (entry.getName() != "usage")
             return isNumber(entry.getValue());
           auto usages = dyn_cast<ArrayAttr>(entry.getValue());
           return usages && llvm::all_of(usages, isUsage);
         });
}

static bool isBucket(Operation *op, IntegerAttr bucket) {
  return isa<rt::CollectiveOpInterface>(op) && !bucket.getValue().isNegative();
}

static bool isEncoding(Operation *op, Attribute encoding) {
  auto collective = dyn_cast<rt::CollectiveOpInterface>(op);
  return collective && isa<shale::dist::EncodingAttr>(encoding) &&
         collective.getSend().getType().getElementType().isInteger(32);
}

static bool isModule(Operation *op, UnitAttr) { return isa<ModuleOp>(op); }

static bool isSize(Operation *op, IntegerAttr bytes) {
  return isa<ModuleOp>(op) && !bytes.getValue().isNegative();
}

using RT = RTDialect;
static constexpr StringLiteral kBytes = "be a number of bytes, on a module";
static constexpr AttrRule kRules[] = {
    attrRule<RT::CodeAttrHelper, isKernelCode>("be what a compiled kernel takes"),
    attrRule<RT::BucketAttrHelper, isBucket>("be the number of a bucket, on a collective"),
    attrRule<RT::EncodingAttrHelper, isEncoding>(
        "be a #dist.encoding, on a collective of words (i32)"),
    attrRule<RT::AllowTf32AttrHelper, isModule>("be a unit, on a module"),
    attrRule<RT::FastMathAttrHelper, isModule>("be a unit, on a module"),
    attrRule<RT::ThreadsAttrHelper, isSize>("be a number of threads, on a module"),
    attrRule<RT::StateBytesAttrHelper, isSize>(kBytes),
    attrRule<RT::ArenaBytesAttrHelper, isSize>(kBytes),
    attrRule<RT::HostStateBytesAttrHelper, isSize>(kBytes),
    attrRule<RT::HostArenaBytesAttrHelper, isSize>(kBytes)};

LogicalResult RTDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  return verifyDiscardableAttr(op, attr, kRules);
}

int64_t shale::rt::bufferBytes(MemRefType type) { return nn::tensorBytes(tensorType(type)); }

MemRefType shale::rt::bufferType(Type tensor) {
  auto ranked = cast<RankedTensorType>(tensor);
  return MemRefType::get(ranked.getShape(), ranked.getElementType());
}

RankedTensorType shale::rt::tensorType(Type buffer) {
  auto memref = cast<MemRefType>(buffer);
  return RankedTensorType::get(memref.getShape(), memref.getElementType());
}

BufferOp shale::rt::allocationOf(Value buffer) {
  while (Operation *op = buffer.getDefiningOp()) {
    if (auto view = dyn_cast<ViewOp>(op))
      buffer = view.getSource();
    else if (auto shard = dyn_cast<ShardOp>(op))
      buffer = shard.getSource();
    else
      return dyn_cast<BufferOp>(op);
  }
  return nullptr;
}

mem::Memory shale::rt::memoryOf(Value buffer) {
  BufferOp allocation = allocationOf(buffer);
  return allocation ? allocation.getMemory() : mem::Memory::Device;
}

mem::Memory shale::rt::kernelMemory(ValueRange outputs) {
  auto isHost = [](Value output) { return memoryOf(output) == mem::Memory::Host; };
  return llvm::any_of(outputs, isHost) ? mem::Memory::Host : mem::Memory::Device;
}

static constexpr llvm::StringLiteral kSlotSuffix = "@slot";

std::string shale::rt::slotName(StringRef state) { return (state + kSlotSuffix).str(); }

StringRef shale::rt::stateNameOf(StringRef slot) {
  slot.consume_back(kSlotSuffix);
  return slot;
}
