//===- Collectives.td - Collectives that change a layout ------------------===//
#ifndef SHALE_DIST_COLLECTIVES_TD
#define SHALE_DIST_COLLECTIVES_TD

include "dialects/dist/DistBase.td"

// Life of all ops here: made by partition where layouts differ; schedule splits
// them into dist.start and dist.wait; they become runtime calls in plan.
// Each runs over the ranks that differ only in their coordinate on `axis`. Over
// an axis of size 1 they fold to their operand.

def Dist_AllGatherOp : Dist_Op<"all_gather", [Pure, Dist_EncodedMethods,
    DeclareOpInterfaceMethods<ShardingRuleInterface, ["getShardingRule"]>]> {
  let summary = "Gathers a split dimension";
  let description = [{
    S(dim) -> R: the concatenation along `dim` of all ranks' operands in the
    order of their coordinates. With an `encoding`, every rank, the sender included, gets what that
    makes of the operands. `--shale-quantize-reductions` makes of it a gather of words.

    Constraints:
    - (C1) `axis` is an axis of the mesh, `dim` a dimension.
    - (C2) the result has the operand's type, dimension `dim` multiplied by the axis' size.
    - (C3) a gather with an `encoding` has 1-D operands of f32 in whole blocks of 256, or of words in blocks of 65.

    Example: `%1 = dist.all_gather %0 over "fsdp" dim = 0 : tensor<2x8xf32> -> tensor<4x8xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, StrAttr:$axis, I64Attr:$dim, OptionalAttr<Dist_EncodingAttr>:$encoding);
  let results = (outs Dist_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$input, "::llvm::StringRef":$axis, "int64_t":$dim), [{
    build($_builder, $_state, type, input, axis, dim, EncodingAttr());
  }]>];
  let assemblyFormat = "$input `over` $axis `dim` `=` custom<Index>($dim) (`as` `` $encoding^)? attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Dist_ReduceScatterOp : Dist_Op<"reduce_scatter", [Pure, Dist_CollectiveMethods]> {
  let summary = "Sums over ranks and keeps one slice";
  let description = [{
    P(sum) -> S(dim): slice c along `dim` of the sum of all ranks' operands, where
    c is this rank's coordinate. Operands are summed in the order of coordinates.
    With an `encoding`, the terms of the sum, this rank's included, are what that makes of the slices.
    `--shale-quantize-reductions` makes of it a `dist.all_to_all` of words between two kernels. `dist.quantization_error` is what the sum lacks.

    Constraints:
    - (C1) `axis` is an axis of the mesh, `dim` a dimension.
    - (C2) the result has the operand's type, dimension `dim` divided by the axis' size.
    - (C3) a sum with an `encoding` has 1-D operands of f32, whose slices are whole blocks of 256.

    Example: `%1 = dist.reduce_scatter sum %0 over "fsdp" dim = 0 : tensor<4x8xf32> -> tensor<2x8xf32>`
  }];
  let arguments = (ins Dist_ReductionAttr:$reduction, Dist_Tensor:$input, StrAttr:$axis, I64Attr:$dim, OptionalAttr<Dist_EncodingAttr>:$encoding);
  let results = (outs Dist_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "Reduction":$reduction, "::mlir::Value":$input, "::llvm::StringRef":$axis, "int64_t":$dim), [{
    build($_builder, $_state, type, reduction, input, axis, dim, EncodingAttr());
  }]>];
  let assemblyFormat = "`` $reduction $input `over` $axis `dim` `=` custom<Index>($dim) (`as` `` $encoding^)? attr-dict `:` type($input) `->` type($result)";
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

def Dist_AllToAllOp : Dist_Op<"all_to_all", [Pure, Dist_EncodedMethods]> {
  let summary = "Moves the split to another dimension";
  let description = [{
    S(concat) -> S(split): the operand is cut along `split` into one piece per
    rank; each rank joins the pieces it receives along `concat` in the order of
    coordinates. With an `encoding`, the pieces are words.

    Constraints:
    - (C1) `axis` is an axis of the mesh; `split` and `concat` are dimensions and differ.
    - (C2) the result has the operand's type, `split` divided and `concat` multiplied by the axis' size.
    - (C3) with an `encoding`, the operand has i32.

    Example: `%1 = dist.all_to_all %0 over "tp" split = 1 concat = 0 : tensor<2x8xf32> -> tensor<4x4xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, StrAttr:$axis, I64Attr:$split, I64Attr:$concat, OptionalAttr<Dist_EncodingAttr>:$encoding);
  let results = (outs Dist_Tensor:$result);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$input, "::llvm::StringRef":$axis, "int64_t":$split, "int64_t":$concat), [{
    build($_builder, $_state, type, input, axis, split, concat, EncodingAttr());
  }]>];
  let assemblyFormat = [{
    $input `over` $axis `split` `=` custom<Index>($split) `concat` `=` custom<Index>($concat)
    (`as` `` $encoding^)? attr-dict `:` type($input) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def Dist_QuantizationErrorOp : Dist_Op<"quantization_error", [Pure, AllTypesMatch<["input", "result"]>]> {
  let summary = "What a collective with an encoding does not send of a value";
  let description = [{
    The operand minus integer times scale of its blocks, which a collective with the encoding sends; 0 in a block
    with an element that is not finite. A rank adds it to what it sends next (error feedback: Seide and
    others, Interspeech 2014, section 3.2).

    Life: made by `--shale-materialize-units`; becomes a kernel with the collective, in
    `--shale-quantize-reductions`.

    Constraints:
    - (C1) the operand is 1-D, of f32, in whole blocks of 256.

    Example: `%1 = dist.quantization_error %0 as int8 : tensor<512xf32>`
  }];
  let arguments = (ins Dist_Tensor:$input, Dist_EncodingAttr:$encoding);
  let results = (outs Dist_Tensor:$result);
  let assemblyFormat = "$input `as` `` $encoding attr-dict `:` type($result)";
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
