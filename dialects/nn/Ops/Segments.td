//===- Segments.td - Reductions and broadcasts by segments ----------------===//
#ifndef SHALE_NN_SEGMENTS_TD
#define SHALE_NN_SEGMENTS_TD

include "dialects/nn/NNBase.td"

def NN_StoredResult : NativeOpTrait<"StoredResult"> {
  let cppNamespace = "::shale::nn";
}

// An op between a flat group, or a slice of it, and a tensor with a value per segment, or per row and column of these.
class NN_SegmentOp<string mnemonic, list<Trait> traits> : NN_Op<mnemonic, [Pure, NN_Cost] # traits> {
  let results = (outs NN_FloatTensor:$result);
  let hasVerifier = 1;
  string place = " (`offset` $offset^ `:` type($offset))? `segments` `=` $segments attr-dict `:` type($input) `->` type($result)";
}

def NN_SegmentMeansOp : NN_SegmentOp<"segment_means", [NN_IndexedMove, NN_StoredResult]> {
  let summary = "Means of each segment of a flat group, or of its rows and columns";
  let description = [{
    Element i of the result is the sum of the input over segment i, divided by the number of the segment's elements. With
    `factors` the result has, from the segment's place `at`, the means of the rows of all of its matrices, then those of the
    columns; of a segment that is no matrix, its elements. Result elements of no segment are 0. With `squares` the means are
    those of the squares.

    The input is a flat group, or the slice of it that begins at element `offset`. Of a slice the sums are over the
    elements that it has, so that the results of all slices add up to the means.

    Life: made by `shale-materialize-units`; elementwise ops that compute its input, and nothing else reads, join its kernel.

    Constraints:
    - (C1) the input and the result have one dimension; segments ascend and do not overlap, in the group and, with `factors`, in
      the result, and end within the result and, without `offset`, within the input.
    - (C2) without `factors` the result has one element per segment.
    - (C3) the result has the input's element type.

    Example: `%1 = nn.segment_means %g squares factors segments = [#nn.factored_range<offset = 0, shape = [4, 8], at = 0>] : tensor<32xf32> -> tensor<12xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, UnitAttr:$squares, UnitAttr:$factors, Optional<0DTensorOf<[I64]>>:$offset,
                       TypedArrayAttrBase<NN_FactoredRangeAttr, "segments">:$segments);
  let assemblyFormat = "$input (`squares` $squares^)? (`factors` $factors^)?" # place;
}

def NN_SegmentBroadcastOp : NN_SegmentOp<"segment_broadcast", [NN_Indexed]> {
  let summary = "A value per segment, row or column, repeated over the elements";
  let description = [{
    The elements of segment i of a flat group are element i of the input. With `rows` or `columns` they are the values of their
    row or column, which the input has in the form of `nn.segment_means` with `factors`. The elements of a segment that is no
    matrix are then those of the input, or, with `columns`, 1. Elements in no segment are 0. The result is the group, or the
    slice of it that begins at element `offset`.

    Life: as `nn.segment_means`; joins clusters.

    Constraints:
    - (C1) the input and the result have one dimension; segments are as in `nn.segment_means`.
    - (C2) without `rows` and `columns` the input has one element per segment.
    - (C3) the result has the input's element type.
    - (C4) there are not both `rows` and `columns`.

    Example: `%1 = nn.segment_broadcast %rates segments = [#nn.factored_range<offset = 0, shape = [4, 8], at = 0>] : tensor<1xf32> -> tensor<32xf32>`
  }];
  let arguments = (ins NN_FloatTensor:$input, UnitAttr:$rows, UnitAttr:$columns, Optional<0DTensorOf<[I64]>>:$offset,
                       TypedArrayAttrBase<NN_FactoredRangeAttr, "segments">:$segments);
  let assemblyFormat = "$input (`rows` $rows^)? (`columns` $columns^)?" # place;
  let extraClassDeclaration = [{
    /// Whether the input has a value per segment.
    bool isPerSegment() { return !getRows() && !getColumns(); }
  }];
}

#endif // SHALE_NN_SEGMENTS_TD
