//===- DistBase.td - Base classes of dist ops -----------------------------===//
#ifndef SHALE_DIST_BASE_TD
#define SHALE_DIST_BASE_TD

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "dialects/interfaces/Interfaces.td"
include "dialects/dist/DistAttrs.td"

def Dist_Tensor : StaticShapeTensorOf<[F32, F64, BF16, F16, I64, I32, I1]>;

class Dist_Op<string mnemonic, list<Trait> traits = []>
    : Op<Dist_Dialect, mnemonic, traits>;

def Dist_CollectiveMethods : DeclareOpInterfaceMethods<CollectiveInterface>;
def Dist_EncodedMethods : DeclareOpInterfaceMethods<CollectiveInterface, ["getSentEncoding"]>;

#endif // SHALE_DIST_BASE_TD
