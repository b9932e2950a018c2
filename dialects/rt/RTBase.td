//===- RTBase.td - Types, enums and base classes of rt ops ----------------===//
#ifndef SHALE_RT_BASE_TD
#define SHALE_RT_BASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/interfaces/Interfaces.td"
include "dialects/rt/RTDialect.td"

class RT_Op<string mnemonic, list<Trait> traits = []>
    : Op<RT_Dialect, mnemonic, traits>;

def RT_Token : TypeDef<RT_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "A started collective or copy that has not been waited for";
}

def RT_Buffer : StaticShapeMemRefOf<[F32, F64, BF16, F16, F8E4M3FN, F8E5M2, I64, I32, I1]>;

// A byte count or an index. Signed, so that invalid values can be detected.
def RT_Int : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer attribute">;

def RT_Space : I32EnumAttr<"Space", "the block of memory that a buffer lies in", [
    I32EnumAttrCase<"State", 0, "state">,
    I32EnumAttrCase<"Arena", 1, "arena">,
    I32EnumAttrCase<"Input", 2, "input">,
    I32EnumAttrCase<"Constant", 3, "constant">,
    I32EnumAttrCase<"Hyper", 4, "hyper">,
    I32EnumAttrCase<"Metric", 5, "metric">]> {
  let cppNamespace = "::shale::rt";
  let genSpecializedAttr = 0;
}
def RT_SpaceAttr : EnumAttr<RT_Dialect, RT_Space, "space">;

def RT_Category : I32EnumAttr<"Category", "what memory is for, in reports", [
    I32EnumAttrCase<"Parameters", 0, "parameters">,
    I32EnumAttrCase<"Gradients", 1, "gradients">,
    I32EnumAttrCase<"Optimizer", 2, "optimizer">,
    I32EnumAttrCase<"Activations", 3, "activations">,
    I32EnumAttrCase<"Communication", 4, "communication">,
    I32EnumAttrCase<"Workspace", 5, "workspace">,
    I32EnumAttrCase<"Fixed", 6, "fixed">]> {
  let cppNamespace = "::shale::rt";
  let genSpecializedAttr = 0;
}
def RT_CategoryAttr : EnumAttr<RT_Dialect, RT_Category, "category">;

#endif // SHALE_RT_BASE_TD
