//===- Unit.td - Units of parameters --------------------------------------===//
#ifndef SHALE_DIST_UNIT_TD
#define SHALE_DIST_UNIT_TD

include "dialects/dist/DistBase.td"

def Dist_UnitOp : Dist_Op<"unit", [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Parameters that are stored, gathered and reduced together";
  let description = [{
    Describes how parameters are stored, which is independent of their layout at
    use. A unit is a list of groups. A group is one 1-D tensor of segments, split
    in equal, consecutive slices, or not split: this depends on the states that
    hold it. The slices are over the unit's axis, without those that split the
    group's parameters when they are used, as the axis of experts does.

    Life: made by partition; lives up to codegen, which writes the program's
    table of groups from it.

    Constraints:
    - (C1) the mesh exists and has the axis; a unit without an axis is never split.
    - (C2) a group's count is a multiple of the size of its axis of storage.
    - (C3) segments ascend, do not overlap, begin at multiples of 64 bytes (unless the group has a slot) and end within the group.
    - (C4) no parameter is in two segments of groups without a slot, or of one group; group names differ.
    - (C5) a group's axes are axes of the mesh, and those of them that are members of the unit's axis split experts; the members that
      they leave are a declared axis.

    Example: `dist.unit @h.0 on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$mesh, OptionalAttr<StrAttr>:$axis,
                       TypedArrayAttrBase<Dist_GroupAttr, "groups">:$groups);
  let assemblyFormat = "$sym_name `on` $mesh (`[` $axis^ `]`)? `groups` `=` $groups attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    GroupAttr getGroup(int64_t index);
    /// Returns the axis over which a group is split at rest, if its states are: the unit's, or what
    /// the group's axes leave of it; null if that is nothing.
    ::mlir::StringAttr getAxisOf(GroupAttr group);
  }];
}

class Dist_UnitUser<string mnemonic, list<Trait> traits = []>
    : Dist_Op<mnemonic, [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>] # traits>;

def Dist_UnitGatherOp : Dist_UnitUser<"unit_gather", [Dist_EncodedMethods]> {
  let summary = "Gathers a group from its shards";
  let description = [{
    An all-gather over `axis`; shards are converted to the wire type before they
    are sent.

    With an `encoding`, every rank, its own shard included, computes with what that makes of the
    elements, converted to the wire type. `--shale-quantize-gathers` makes the op gather words.

    Life: made by partition, one per group and function; `--shale-materialize-recompute`
    clones those that carry `mem.recompute`; schedule splits it into start and wait.

    Constraints:
    - (C1) the unit exists, has that group, and `axis` is its axis of storage.
    - (C2) the operand has the group's count divided by the axis' size elements, of the stored type or already cast to the wire type;
      the result has count elements of the wire type. Or, with an `encoding`, both have i32, and 65 elements for each 256.
    - (C3) the operand of a gather with an `encoding` has whole blocks.

    Example: `%1 = dist.unit_gather %0 @h.0[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, FlatSymbolRefAttr:$unit, I64Attr:$group, StrAttr:$axis, OptionalAttr<Dist_EncodingAttr>:$encoding);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input $unit `[` custom<Index>($group) `]` `over` $axis (`as` `` $encoding^)? attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = [{
    /// Whether the op gathers words of encoded blocks, not elements.
    bool gathersWords();
  }];
}

def Dist_UnitViewOp : Dist_UnitUser<"unit_view", [DeclareOpInterfaceMethods<ViewInterface>]> {
  let summary = "A parameter of a whole group";
  let description = [{
    The elements of the parameter's segment in the parameter's shape, or those of a run: of the segment
    and the ones that follow it without a gap, as rows of one matrix.

    Life: made by partition; costs nothing: after plan it is a range of the
    group's buffer.

    Constraints:
    - (C1) the unit exists, has that group, and the group has a segment of `param`.
    - (C2) the operand has the group's count of elements, of the stored or the wire type;
      the result has the shape of the segment or of a run that begins with it, and the operand's element type.

    Example: `%1 = dist.unit_view %0 @h.0[0] @w : tensor<32xf32> -> tensor<4x8xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, FlatSymbolRefAttr:$unit, I64Attr:$group, FlatSymbolRefAttr:$param);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input $unit `[` custom<Index>($group) `]` $param attr-dict `:` type($input) `->` type($result)";
}

def Dist_UnitPackOp : Dist_UnitUser<"unit_pack"> {
  let summary = "The gradients of a group's parameters as one 1-D tensor";
  let description = [{
    Each operand is placed in the segment of its parameter, or in a run that begins with it, as in
    `dist.unit_view`. Segments that are not named or in a run, and padding, are zero.

    Life: made by partition; after plan the producers write in place and only
    gaps are cleared.

    Constraints:
    - (C1) the unit exists, has that group, and the group has a segment of each of `params`; no segment has two operands.
    - (C2) there is one operand per name, of the shape of the segment or of a run; the result has the group's count of elements; all have one element
      type: the group's reduce type or that of its sums (f32 for 16-bit floats), in which micro-batches are accumulated.

    Example: `%1 = dist.unit_pack @h.0[0] [@w](%0) : (tensor<4x8xf32>) -> tensor<32xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$unit, I64Attr:$group,
                       TypedArrayAttrBase<FlatSymbolRefAttr, "parameters">:$params, Variadic<Dist_Tensor>:$inputs);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$unit `[` custom<Index>($group) `]` $params `(` $inputs `)` attr-dict `:` functional-type($inputs, $result)";
}

#endif // SHALE_DIST_UNIT_TD
