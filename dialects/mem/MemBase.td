//===- MemBase.td - Enums of mem ------------------------------------------===//
#ifndef SHALE_MEM_BASE_TD
#define SHALE_MEM_BASE_TD

include "mlir/IR/EnumAttr.td"

def Mem_Memory : I32EnumAttr<"Memory", "the memory that bytes are in", [
    I32EnumAttrCase<"Device", 0, "device">,
    I32EnumAttrCase<"Host", 1, "host">]> {
  let cppNamespace = "::shale::mem";
}

#endif // SHALE_MEM_BASE_TD
