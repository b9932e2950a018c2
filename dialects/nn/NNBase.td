//===- NNBase.td - Types and base classes of nn ops -----------------------===//
#ifndef SHALE_NN_BASE_TD
#define SHALE_NN_BASE_TD

include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "dialects/interfaces/Interfaces.td"
include "dialects/nn/NNAttrs.td"

def NN_Float : AnyTypeOf<[F32, F64, BF16, F16]>;
def NN_Int : AnyTypeOf<[I64, I32]>;
def NN_Element : AnyTypeOf<[F32, F64, BF16, F16, I64, I32, I1]>;

/// 8-bit floats of matmuls; they are made after all passes but those of fusion.
def NN_Float8 : AnyTypeOf<[F8E4M3FN, F8E5M2]>;
def NN_Float8Tensor : StaticShapeTensorOf<[NN_Float8]>;

def NN_Tensor : StaticShapeTensorOf<[NN_Element]>;
def NN_AnyTensor : StaticShapeTensorOf<[NN_Element, NN_Float8]>;
def NN_FloatTensor : StaticShapeTensorOf<[NN_Float]>;
def NN_IntTensor : StaticShapeTensorOf<[NN_Int]>;
def NN_NumberTensor : StaticShapeTensorOf<[NN_Float, NN_Int]>;
def NN_BoolTensor : StaticShapeTensorOf<[I1]>;
def NN_FloatScalar : 0DTensorOf<[NN_Float]>;
def NN_BoolScalar : 0DTensorOf<[I1]>;
/// An input of random numbers: seed, step, micro-batch or offset.
def NN_RandomScalar : 0DTensorOf<[I64]>;

class NN_Op<string mnemonic, list<Trait> traits = []>
    : Op<NN_Dialect, mnemonic, traits>;

// Interfaces that ops declare; each family of ops lists those that it implements.
def NN_Differentiable : DeclareOpInterfaceMethods<DifferentiableInterface>;
// Alike: operands and result are split alike, as elementwise ops are (no method to declare).
def NN_Sharded : DeclareOpInterfaceMethods<ShardingRuleInterface, ["getShardingRule"]>;
def NN_ShardedAlike : DeclareOpInterfaceMethods<ShardingRuleInterface>;
def NN_Partitionable : DeclareOpInterfaceMethods<PartitionableInterface>;
def NN_ElementwiseOp : DeclareOpInterfaceMethods<ElementwiseInterface>;
def NN_Indexed : DeclareOpInterfaceMethods<IndexedInterface>;
def NN_IndexedMove : DeclareOpInterfaceMethods<IndexedInterface, ["getAccess"]>;
def NN_IndexedWhere : DeclareOpInterfaceMethods<IndexedInterface, ["canEmit"]>;
def NN_IndexedLookup : DeclareOpInterfaceMethods<IndexedInterface, ["readsMemory"]>;
def NN_Decomposable : DeclareOpInterfaceMethods<DecomposableInterface>;
def NN_View : DeclareOpInterfaceMethods<ViewInterface>;
def NN_ViewWhere : DeclareOpInterfaceMethods<ViewInterface, ["isViewOf"]>;
def NN_Moves : DeclareOpInterfaceMethods<ElementMoveInterface>;
def NN_MovesSome : DeclareOpInterfaceMethods<ElementMoveInterface, ["getMovedElements"]>;
def NN_IndexUser : DeclareOpInterfaceMethods<IndexUserInterface>;
def NN_RowLoss : DeclareOpInterfaceMethods<RowLossInterface, ["buildWithoutLogits"]>;
/// Columns of minus infinity in the first operand, a matrix of logits, are classes that do not
/// exist: other results do not change, and a result of the logits' shape is 0 there.
def NN_AbsentClasses : NativeOpTrait<"AbsentClasses"> { let cppNamespace = "::shale::nn"; }
def NN_Stochastic : DeclareOpInterfaceMethods<StochasticInterface>;
def NN_StochasticWhere : DeclareOpInterfaceMethods<StochasticInterface, ["drawsRandom"]>;
def NN_Cost : DeclareOpInterfaceMethods<CostInterface>;
def NN_MatmulCost : DeclareOpInterfaceMethods<CostInterface, ["isMatmul"]>;
// Follows: every float has the type of the others (no method to declare). AnyNumeric: nothing is computed.
def NN_Follows : DeclareOpInterfaceMethods<PrecisionInterface>;
def NN_AnyNumeric : DeclareOpInterfaceMethods<PrecisionInterface, ["movesOnly"]>;
def NN_Numeric : DeclareOpInterfaceMethods<PrecisionInterface, ["getOperandNumeric", "getResultNumeric"]>;

#endif // SHALE_NN_BASE_TD
