//===- Mesh.td - The mesh and layouts on it -------------------------------===//
#ifndef SHALE_DIST_MESH_TD
#define SHALE_DIST_MESH_TD

include "dialects/dist/DistBase.td"

def Dist_MeshOp : Dist_Op<"mesh", [Symbol]> {
  let summary = "Names the axes over which ranks are arranged";
  let description = [{
    Rank r has the coordinates of r in row-major order: the last axis varies
    fastest, that is, within a node. An axis has a kind, which is a name for
    what its ranks share out:

    | kind | inputs | state at rest | values of the graph |
    |---|---|---|---|
    | `replica` | split by the batch | the same on all ranks | whole |
    | `shard` | split by the batch | split as the strategy says, over all axes of this kind at once | whole |
    | `tensor` | the same on all ranks | that of the values | split as given by `dist.constrain` |
    | `expert` | split by the batch | as `shard`, but for matrices of experts: they are split by experts | whole, but for what is computed with experts |

    Along an axis that does not split values, parameters are whole when they
    are used, and gradients are summed, but for those of experts along an `expert` axis.

    Life: made by `--shale-annotate-mesh`; lives up to codegen, which writes the
    program's table of axes from it.

    Constraints:
    - (C1) at least one axis; names are not empty and differ.
    - (C2) sizes are at least 1 and their product is at most 1048576.
    - (C3) a module has one mesh.
    - (C4) `joint` names several axes each, joined by `+` in the order of the mesh; no axis has a `+` in its name.

    A collective runs over one axis, or over a joint one: `"tp+tp2"` are the ranks that differ in no other coordinate, in row-major
    order. Layouts name axes of the mesh only.

    Example: `dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrArrayAttr:$axes, DenseI32ArrayAttr:$kinds, DenseI64ArrayAttr:$sizes,
                       OptionalAttr<StrArrayAttr>:$joint);
  let assemblyFormat = "$sym_name custom<MeshAxes>($axes, $kinds, $sizes) (`joint` $joint^)? attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the axes of the mesh that an axis stands for: itself, or those that it joins.
    static ::llvm::SmallVector<::llvm::StringRef, 2> membersOf(::llvm::StringRef axis);
    /// Returns the name of what remains of an axis without some of its members; null if nothing
    /// does, or if `axis` is null.
    static ::mlir::StringAttr without(::mlir::StringAttr axis, ::llvm::ArrayRef<::llvm::StringRef> members);
    /// Returns the name of the axis that joins these, which are several and in the order of the
    /// mesh, and declares it.
    ::llvm::StringRef join(::llvm::ArrayRef<::llvm::StringRef> members);
    ::llvm::SmallVector<::llvm::StringRef> getJointNames();
    /// Returns the place of an axis among those of the mesh and then the joint ones; -1 if there is
    /// none of that name.
    int64_t indexOf(::llvm::StringRef axis);
    /// Size of `axis`, or 0 when the mesh has none of that name.
    int64_t getSize(::llvm::StringRef axis);
    /// Whether values are split along `axis`: it has several ranks, or the module has
    /// `dist.keep_single_rank`.
    bool splits(::llvm::StringRef axis);
    /// Number of ranks.
    int64_t getRankCount();
    /// Coordinate of `rank` on `axis`; 0 when the mesh has none of that name.
    int64_t getCoordinate(int64_t rank, ::llvm::StringRef axis);
    /// The roles of `axis`; none when the mesh has none of that name.
    AxisRole getRoles(::llvm::StringRef axis);
    bool splitsInputs(::llvm::StringRef axis) { return dist::splitsInputs(getRoles(axis)); }
    bool splitsValues(::llvm::StringRef axis) { return dist::splitsValues(getRoles(axis)); }
    bool splitsExperts(::llvm::StringRef axis) { return dist::splitsExperts(getRoles(axis)); }
    bool exchangesValues(::llvm::StringRef axis) { return dist::exchangesValues(getRoles(axis)); }
    bool sumsGradients(::llvm::StringRef axis) { return dist::sumsGradients(getRoles(axis)); }
    /// The axes whose roles a predicate of Axes.h holds for, in the order of the mesh.
    ::llvm::SmallVector<::llvm::StringRef> getAxesThat(RolesPredicate holds);
    /// Product of the sizes of these axes.
    int64_t getRanksThat(RolesPredicate holds);
  }];
}

def Dist_ConstrainOp : Dist_Op<"constrain", [Pure, AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<DifferentiableInterface>, DeclareOpInterfaceMethods<ShardingRuleInterface, ["getShardingRule"]>,
    DeclareOpInterfaceMethods<PrecisionInterface, ["movesOnly"]>]> {
  let summary = "Fixes the layout of a value";
  let description = [{
    The result is the operand with the layout `sharding` on every mesh axis that
    splits values or experts. Other axes that it does not name are left to propagation.

    Life: written by hand or made by a tensor-parallel plan; propagation starts
    from it; gone after partition.

    Constraints:
    - (C1) the sharding has the operand's rank and its axes are the mesh's.
    - (C2) each dimension divides into the blocks and over the sizes of its axes, one after the other.
    - (C3) nothing is partial.

    Example: `%1 = dist.constrain %0 to <[{}, {"tp"} ]> : tensor<4x8xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_ShardingAttr:$sharding);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input `to` $sharding attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dist_CoordinateOp : Dist_Op<"coordinate", [Pure]> {
  let summary = "This rank's coordinate on an axis";
  let description = [{
    Life: made by partition where an op depends on the position of its slice; the
    value is known when the program starts.

    Constraints:
    - (C1) `axis` is an axis of the mesh.

    Example: `%0 = dist.coordinate "fsdp" : tensor<i64>`
  }];
  let arguments = (ins StrAttr:$axis);
  let results = (outs 0DTensorOf<[I64]>:$result);
  let assemblyFormat = "$axis attr-dict `:` type($result)";
  let hasVerifier = 1;
}

#endif // SHALE_DIST_MESH_TD
