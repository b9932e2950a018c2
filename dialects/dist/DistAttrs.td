//===- DistAttrs.td - Attributes and types of dist ------------------------===//
#ifndef SHALE_DIST_ATTRS_TD
#define SHALE_DIST_ATTRS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "dialects/dist/DistDialect.td"

class Dist_Attr<string name, string mnemonic_, list<Trait> traits = []>
    : AttrDef<Dist_Dialect, name, traits> {
  let mnemonic = mnemonic_;
}

def Dist_Reduction : I32EnumAttr<"Reduction", "how partial values become one", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::shale::dist";
  let genSpecializedAttr = 0;
}
def Dist_ReductionAttr : EnumAttr<Dist_Dialect, Dist_Reduction, "reduction">;

def Dist_AxisRole : I32BitEnumAttr<"AxisRole", "what the ranks along a mesh axis share out", [
    I32BitEnumAttrCaseBit<"Batch", 0, "batch">,
    I32BitEnumAttrCaseBit<"Replicate", 1, "replicate">,
    I32BitEnumAttrCaseBit<"State", 2, "state">,
    I32BitEnumAttrCaseBit<"Values", 3, "values">,
    I32BitEnumAttrCaseBit<"Experts", 4, "experts">]> {
  let cppNamespace = "::shale::dist";
  let genSpecializedAttr = 0;
}

def Dist_AxisKind : I32EnumAttr<"AxisKind", "a name for the roles of a mesh axis", [
    I32EnumAttrCase<"Replica", 0, "replica">,
    I32EnumAttrCase<"Shard", 1, "shard">,
    I32EnumAttrCase<"Tensor", 2, "tensor">,
    I32EnumAttrCase<"Expert", 3, "expert">]> {
  let cppNamespace = "::shale::dist";
  let genSpecializedAttr = 0;
}

def Dist_Strategy : I32EnumAttr<"Strategy", "what is split at rest over the shard axis", [
    I32EnumAttrCase<"None", 0, "none">,
    I32EnumAttrCase<"Optimizer", 1, "optimizer">,
    I32EnumAttrCase<"Grad", 2, "grad">,
    I32EnumAttrCase<"Full", 3, "full">]> {
  let cppNamespace = "::shale::dist";
  let genSpecializedAttr = 0;
}
def Dist_StrategyAttr : EnumAttr<Dist_Dialect, Dist_Strategy, "strategy"> {
  let assemblyFormat = "`<` $value `>`";
}

def Dist_Encoding : I32EnumAttr<"Encoding", "how a collective sends floats", [
    I32EnumAttrCase<"Int8", 0, "int8">]> {
  let cppNamespace = "::shale::dist";
  let genSpecializedAttr = 0;
}
def Dist_EncodingAttr : EnumAttr<Dist_Dialect, Dist_Encoding, "encoding"> {
  let summary = "How a collective sends floats";
  let description = [{
    - `int8`: blocks of 256 elements as 8-bit integers with a scale, as in ZeRO++ (Wang and others, arXiv 2306.10209, section
      3.1): the scale is the largest magnitude of the block divided by 127 in f32, 0 if that is less than 2^-126, and an element x
      becomes floor(x / scale + 0.5). What is received is integer times scale. A block with an element that is not
      finite becomes NaN. A block is 65 words of 32 bits: byte k of word j, from the lowest, is element 64 * k + j, and
      word 64 has the bits of the scale.

    A collective with an encoding has floats as operand and result until kernels encode and decode them; then it moves words (i32).
  }];
}

def Dist_Use : I32EnumAttr<"Use", "what uses of a group's parameters read", [
    I32EnumAttrCase<"Stored", 0, "stored">,
    I32EnumAttrCase<"Gathered", 1, "gathered">,
    I32EnumAttrCase<"Copied", 2, "copied">]> {
  let cppNamespace = "::shale::dist";
  let genSpecializedAttr = 0;
}

def Dist_ReductionStepAttr : Dist_Attr<"ReductionStep", "reduction_step"> {
  let summary = "One of the collectives that sum the gradients of a group";
  let description = [{
    A sum over those of `axes` on which the gradients are partial, at once. With `scatter` each rank keeps its slice, also
    if there is nothing to sum. With an `encoding` a rank keeps what it does not send, in a state NAME.residual.AXIS, and adds it
    to what it sends next.

    Example: `#dist.reduction_step<["fsdp"] scatter as int8>`
  }];
  let parameters = (ins "::mlir::ArrayAttr":$axes, DefaultValuedParameter<"bool", "false">:$scatter,
                        OptionalParameter<"::shale::dist::EncodingAttr">:$encoding);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Dist_StorageAttr : Dist_Attr<"Storage", "storage"> {
  let summary = "What ranks hold of a group, and what they exchange";
  let description = [{
    `use` is the type in which the model reads the parameters. It reads them as they are stored (`stored`), from a gather of the unit
    (`gathered`, sent in the encoding `gather`), or from a whole copy in the wire type (`copied`). `rest`, `update` and `sums` are axes: each rank
    holds one slice of the stored parameters, of the new parameters and the optimizer's state, and of the accumulated gradients.
    Without the axis, each rank holds all of it. `steps` are the collectives that sum the gradients, in order.

    Example: `#dist.storage<gathered f32 rest = "fsdp" update = "fsdp" sums = "fsdp" steps = [#dist.reduction_step<["fsdp"] scatter>]>`
  }];
  let parameters = (ins EnumParameter<Dist_Use>:$how, "::mlir::Type":$use,
                        OptionalParameter<"::mlir::StringAttr">:$rest,
                        OptionalParameter<"::mlir::StringAttr">:$update,
                        OptionalParameter<"::mlir::StringAttr">:$sums,
                        OptionalParameter<"::shale::dist::EncodingAttr">:$gather,
                        "::mlir::ArrayAttr":$steps);
  let assemblyFormat = [{
    `<` $how $use (`rest` `=` $rest^)? (`update` `=` $update^)? (`sums` `=` $sums^)? (`gather` `=` `` $gather^)? `steps` `=` $steps `>`
  }];
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Whether gradients are sent in an encoding.
    bool encodesSums() const;
    /// The elements in which segments begin, so that no two share a block of an encoding.
    int64_t getBlock() const;
  }];
}

def Dist_TensorSplit : I32EnumAttr<"TensorSplit", "which dimension of a parameter tensor axes split", [
    I32EnumAttrCase<"Column", 0, "column">,
    I32EnumAttrCase<"Row", 1, "row">,
    I32EnumAttrCase<"Whole", 2, "whole">]> {
  let cppNamespace = "::shale::dist";
  let genSpecializedAttr = 0;
}
def Dist_TensorSplitAttr : EnumAttr<Dist_Dialect, Dist_TensorSplit, "tensor_split"> {
  let assemblyFormat = "`<` $value `>`";
}

def Dist_ShardingAttr : Dist_Attr<"Sharding", "sharding"> {
  let summary = "The layout of a value over the mesh";
  let description = [{
    One pair of braces per dimension with the axes that split it, major to minor.
    `"tp" in 2` splits each of two equal blocks of what earlier axes leave of the
    dimension, as DTensor's `_StridedShard`: a rank has a piece of each block.
    Then the axes on which the value is partial: each rank has one term of a sum or
    maximum. On all other axes the value is the same on every rank.

    Examples:
    - `#dist.sharding<[{}, {} ]>`: replicated.
    - `#dist.sharding<[{"replica", "fsdp"}, {} ]>`: rows split by two axes.
    - `#dist.sharding<[{"tp"} ], partial = {"fsdp": sum}>`.
    - `#dist.sharding<[{"fsdp", "tp" in 2}, {} ]>`: rows are examples and positions, of two examples per rank of
      `fsdp`; ranks of `tp` have other positions of both.
  }];
  let parameters = (ins
    "::mlir::ArrayAttr":$dims,          // of ArrayAttr of StringAttr or [StringAttr, blocks]
    "::mlir::DictionaryAttr":$partial); // axis -> ReductionAttr
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    static ShardingAttr replicated(::mlir::MLIRContext *context, int64_t rank);
    int64_t getRank() const { return getDims().size(); }
    /// The axes that split dimension `dim`, major to minor.
    ::llvm::SmallVector<::llvm::StringRef, 2> getAxes(int64_t dim) const;
    /// The entry of an axis in a dimension: it splits each of so many blocks.
    static ::mlir::Attribute entryOf(::mlir::StringAttr axis, int64_t blocks);
    /// The number of blocks of which each of these axes splits each.
    ::llvm::SmallVector<int64_t, 2> getBlocks(int64_t dim) const;
    /// Whether each rank's part of a dimension is contiguous.
    bool isContiguous() const;
    /// Checks that the layout fits a value of `type` on the mesh around `op`: rank, axes, sizes.
    /// Fails after an error on `op`.
    ::mlir::LogicalResult verifyFits(::mlir::Operation *op, ::mlir::Type type) const;
    /// The dimension that `axis` splits, or -1.
    int64_t getDimOf(::llvm::StringRef axis) const;
    /// Returns the reduction of a value that is partial on `axis`, else nothing.
    std::optional<Reduction> getPartialOn(::llvm::StringRef axis) const;
    bool isReplicated() const;
  }];
}

def Dist_SplitCostAttr : Dist_Attr<"SplitCost", "split_cost"> {
  let summary = "What one way to split a parameter costs a step";
  let description = [{
    Over tensor axes, while all parameters but those that are split with it stay as they are: `gathered` bytes of values that ranks
    gather, `whole` elements of parameters that every rank holds, `reduced` bytes in `sums` values that are
    summed over ranks, all of the block or other region of the parameter. `chosen` is true for the way that was taken.

    Example: `#dist.split_cost<column, gathered = 0, whole = 384, reduced = 262144, sums = 4, chosen = true>`
  }];
  let parameters = (ins EnumParameter<Dist_TensorSplit>:$split, "int64_t":$gathered, "int64_t":$whole,
                        "int64_t":$reduced, "int64_t":$sums, "bool":$chosen);
  let assemblyFormat = [{
    `<` $split `,` `gathered` `=` $gathered `,` `whole` `=` $whole `,` `reduced` `=` $reduced `,` `sums` `=` $sums `,` `chosen` `=` $chosen `>`
  }];
}

def Dist_SegmentAttr : Dist_Attr<"Segment", "segment"> {
  let summary = "A parameter's place in a group";
  let description = [{
    Elements [offset, offset + product of shape) of the group's 1-D tensor hold
    the parameter (after the group's own axes have split it), row-major;
    `factors` are those of its update. Elements in no segment are padding.

    Example: `#dist.segment<@"h.0.w", offset = 16, shape = [4, 8], factors = #nn.update_factors<lr_scale = 1.000000e-01>>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$param, "int64_t":$offset,
                        "::mlir::DenseI64ArrayAttr":$shape,
                        OptionalParameter<"::shale::UpdateFactorsAttrInterface">:$factors);
  let assemblyFormat = [{
    `<` $param `,` `offset` `=` $offset `,` `shape` `=` custom<Shape>($shape) (`,` `factors` `=` $factors^)? `>`
  }];
  let extraClassDeclaration = [{
    /// Returns the number of elements, or -1 if it overflows 64 bits.
    int64_t getCount() const;
  }];
}

def Dist_GroupAttr : Dist_Attr<"Group", "group"> {
  let summary = "Parameters that are stored, gathered and reduced as one 1-D tensor";
  let description = [{
    `type` is the type that is stored, `wire` the type that is sent and used in
    computations, `reduce` the type in which gradients are summed over ranks.
    `axes` are the other mesh axes that split the parameters at use: the group
    holds this rank's parts. `count` is the number of elements with padding. A
    group with a `slot` holds optimizer state that has not the shape of its
    parameters: `shape` of a segment is that of the parameter's state. `storage`, which partition writes, says what
    ranks hold and exchange.

    Example: `#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>`
  }];
  let parameters = (ins "::mlir::StringAttr":$name, "::mlir::Type":$type,
      "::mlir::Type":$wire, "::mlir::Type":$reduce, "bool":$trained,
      "::mlir::ArrayAttr":$axes, "int64_t":$count, "::mlir::ArrayAttr":$segments,
      OptionalParameter<"::mlir::StringAttr">:$slot,
      OptionalParameter<"::shale::dist::StorageAttr">:$storage);
  let assemblyFormat = [{
    `<` $name `,` `type` `=` $type `,` `wire` `=` $wire `,` `reduce` `=` $reduce `,`
    `trained` `=` $trained `,` `axes` `=` $axes `,` `count` `=` $count `,` `segments` `=` $segments
    (`,` `slot` `=` $slot^)? (`storage` `=` $storage^)? `>`
  }];
  let extraClassDeclaration = [{
    /// The segment of parameter `param`, or null.
    SegmentAttr getSegment(::llvm::StringRef param) const;
  }];
}

def Dist_PendingType : TypeDef<Dist_Dialect, "Pending"> {
  let mnemonic = "pending";
  let summary = "The result of a collective that has been started";
  let description = [{ Example: `!dist.pending<tensor<8xf32>>` }];
  let parameters = (ins "::mlir::RankedTensorType":$type);
  let assemblyFormat = "`<` $type `>`";
}

#endif // SHALE_DIST_ATTRS_TD
