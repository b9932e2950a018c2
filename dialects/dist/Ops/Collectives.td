//===- Collectives.td - Collectives that change a layout ------------------===//
#ifndef SHALE_DIST_COLLECTIVES_TD
#define SHALE_DIST_COLLECTIVES_TD

include "dialects/dist/DistBase.td"

// Life of all ops here: made by partition where layouts differ; schedule splits
// them into dist.start and dist.wait; they become runtime calls in plan.
// Each runs over the ranks that differ only in their coordinate on `axis`. Over
// an axis of size 1 they fold to their operand.

def Dist_AllGatherOp : Dist_Op<"all_gather", [Pure, Dist_CollectiveMethods,
    DeclareOpInterfaceMethods<ShardingRuleInterface, ["getShardingRule"]>]> {
  let summary = "Gathers a split dimension";
  let description = [{
    S(dim) -> R: the concatenation along `dim` of all ranks' operands in the
    order of their coordinates. With `quantized`, operands are sent as 8-bit integers, as
    `dist.unit_gather` describes; every rank, the sender included, gets integer times scale.
    `--shale-quantize-reductions` makes of it a gather of words.

    Constraints:
    - (C1) `axis` is an axis of the mesh, `dim` a dimension.
    - (C2) the result has the operand's type, dimension `dim` multiplied by the axis' size.
    - (C3) a `quantized` gather has 1-D operands of f32 in whole blocks of 256.

    Example: `%1 = dist.all_gather %0 over "fsdp" dim = 0 : tensor<2x8xf32> -> tensor<4x8xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, StrAttr:$axis, I64Attr:$dim, UnitAttr:$quantized);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input `over` $axis `dim` `=` custom<Index>($dim) (`quantized` $quantized^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Dist_ReduceScatterOp : Dist_Op<"reduce_scatter", [Pure, Dist_CollectiveMethods]> {
  let summary = "Sums over ranks and keeps one slice";
  let description = [{
    P(sum) -> S(dim): slice c along `dim` of the sum of all ranks' operands, where
    c is this rank's coordinate. Operands are summed in the order of coordinates.
    With `quantized`, slices are sent as 8-bit integers, as `dist.unit_gather` describes; the terms
    of the sum, this rank's included, are integer times scale. `--shale-quantize-reductions` makes of it
    a `dist.all_to_all` of words between two kernels. `dist.quantization_error` is what the sum lacks.

    Constraints:
    - (C1) `axis` is an axis of the mesh, `dim` a dimension.
    - (C2) the result has the operand's type, dimension `dim` divided by the axis' size.
    - (C3) a `quantized` sum has 1-D operands of f32, whose slices are whole blocks of 256.

    Example: `%1 = dist.reduce_scatter sum %0 over "fsdp" dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>`
  }];
  let arguments = (ins Dist_ReductionAttr:$reduction, Dist_Tensor:$input, StrAttr:$axis, I64Attr:$dim, UnitAttr:$quantized);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "`` $reduction $input `over` $axis `dim` `=` custom<Index>($dim) (`quantized` $quantized^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Dist_AllReduceOp : Dist_Op<"all_reduce", [Pure, AllTypesMatch<["input", "result"]>, Dist_CollectiveMethods,
    DeclareOpInterfaceMethods<ShardingRuleInterface>]> {
  let summary = "Sums, or takes the maximum, over ranks";
  let description = [{
    P -> R: the elementwise sum (in the order of coordinates) or maximum of all
    ranks' operands.

    Constraints:
    - (C1) `axis` is an axis of the mesh.

    Example: `%1 = dist.all_reduce sum %0 over "fsdp" : tensor<f32>`
  }];
  let arguments = (ins Dist_ReductionAttr:$reduction, Dist_Tensor:$input, StrAttr:$axis);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "`` $reduction $input `over` $axis attr-dict `:` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Dist_AllToAllOp : Dist_Op<"all_to_all", [Pure, Dist_CollectiveMethods]> {
  let summary = "Moves the split to another dimension";
  let description = [{
    S(concat) -> S(split): the operand is cut along `split` into one piece per
    rank; each rank joins the pieces it receives along `concat` in the order of
    coordinates.

    Constraints:
    - (C1) `axis` is an axis of the mesh; `split` and `concat` are dimensions and differ.
    - (C2) the result has the operand's type, `split` divided and `concat` multiplied by the axis' size.

    Example: `%1 = dist.all_to_all %0 over "tp" split = 1 concat = 0 : tensor<2x8xf32> -> tensor<4x4xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, StrAttr:$axis, I64Attr:$split, I64Attr:$concat);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = [{
    $input `over` $axis `split` `=` custom<Index>($split) `concat` `=` custom<Index>($concat)
    attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Dist_QuantizationErrorOp : Dist_Op<"quantization_error", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "What a quantized collective does not send of a value";
  let description = [{
    The operand minus integer times scale of its blocks, which a `quantized` collective sends; 0 in a block
    with an element that is not finite. A rank adds it to what it sends next (error feedback: Seide and
    others, Interspeech 2014, section 3.2).

    Life: made by `--shale-materialize-units`; becomes a kernel with the collective, in
    `--shale-quantize-reductions`.

    Constraints:
    - (C1) the operand is 1-D, of f32, in whole blocks of 256.

    Example: `%1 = dist.quantization_error %0 : tensor<512xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def Dist_SliceOp : Dist_Op<"slice", [Pure, DeclareOpInterfaceMethods<ViewInterface, ["isViewOf"]>]> {
  let summary = "This rank's slice of a replicated value";
  let description = [{
    R -> S(dim), without communication: slice c along `dim`, where c is this
    rank's coordinate on `axis`. Along dimension 0 the result is a range of the
    operand's buffer.

    Constraints:
    - (C1) `axis` is an axis of the mesh, `dim` a dimension.
    - (C2) the result has the operand's type, dimension `dim` divided by the axis' size.

    Example: `%1 = dist.slice %0 over "fsdp" dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, StrAttr:$axis, I64Attr:$dim);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input `over` $axis `dim` `=` custom<Index>($dim) attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // SHALE_DIST_COLLECTIVES_TD
