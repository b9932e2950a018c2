//===- QuantizePasses.td - Passes of the fusion stage that quantize -------===//
#ifndef SHALE_PASSES_FUSION_QUANTIZE_TD
#define SHALE_PASSES_FUSION_QUANTIZE_TD

include "mlir/Pass/PassBase.td"

def QuantizeGathersPass : Pass<"shale-quantize-gathers", "::mlir::ModuleOp"> {
  let summary = "Gathers 8-bit integers";
  let description = [{
    A `dist.unit_gather as int8` becomes a kernel that quantizes the shard, a gather of the words that it
    writes, and a kernel that computes the elements from the words of all ranks. Each kernel is an `nn.cluster` of
    elementwise ops, reductions and data movement, so that all targets generate it. Bits do not change.

    Before:
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 512, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @u on @mesh["fsdp"] groups = [#group]
    func.func @forward(%shard: tensor<256xf32>) -> tensor<512xbf16> {
      %whole = dist.unit_gather %shard @u[0] over "fsdp" as int8 : tensor<256xf32> -> tensor<512xbf16>
      return %whole : tensor<512xbf16>
    }
    ```

    After:
    ```mlir
    ...
    %0 = nn.cluster (%arg1 = %arg0 : tensor<256xf32>) -> tensor<65xi32> {
    ...
    %1 = dist.unit_gather %0 @u[0] over "fsdp" as int8 : tensor<65xi32> -> tensor<130xi32>
    %2 = nn.cluster (%arg1 = %1 : tensor<130xi32>) -> tensor<512xbf16> {
    ...
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def QuantizeReductionsPass : Pass<"shale-quantize-reductions", "::mlir::ModuleOp"> {
  let summary = "Sums 8-bit integers over ranks";
  let description = [{
    A `dist.reduce_scatter sum as int8` becomes a kernel that quantizes the operand, a `dist.all_to_all` of the words
    that it writes, and a kernel that adds the terms of all ranks in their order, in f32. A `dist.all_gather as int8`
    becomes a kernel, a gather of words and a kernel, as in `--shale-quantize-gathers`. A `dist.quantization_error` becomes a
    kernel that reads the words. If the operand is a sum, as that of a gradient and a residual, the kernels compute it
    themselves, and what the words lack takes the place of the residual. More ranks than `terms` are added by several
    kernels, one after the other. Bits do not change.

    Before:
    ```mlir
    dist.mesh @mesh <[shard "fsdp"=2]>
    func.func @step(%gradient: tensor<1024xf32>, %residual: tensor<1024xf32>) -> (tensor<512xf32>, tensor<1024xf32>) {
      %0 = nn.add %gradient, %residual : tensor<1024xf32>
      %1 = dist.quantization_error %0 as int8 : tensor<1024xf32>
      %2 = dist.reduce_scatter sum %0 over "fsdp" dim = 0 as int8 : tensor<1024xf32> -> tensor<512xf32>
      return %2, %1 : tensor<512xf32>, tensor<1024xf32>
    }
    ```

    After:
    ```mlir
    ...
    %0 = nn.cluster (%arg2 = %arg0 : tensor<1024xf32>, %arg3 = %arg1 : tensor<1024xf32>) -> tensor<2x130xi32> {
    ...
    %1 = nn.cluster (%arg2 = %arg0 : tensor<1024xf32>, %arg3 = %arg1 : tensor<1024xf32>, %arg4 = %0 : tensor<2x130xi32>) -> tensor<1024xf32> aliases [1] {
    ...
    %2 = dist.all_to_all %0 over "fsdp" split = 0 concat = 1 as int8 : tensor<2x130xi32> -> tensor<1x260xi32>
    %3 = nn.cluster (%arg2 = %2 : tensor<1x260xi32>) -> tensor<512xf32> {
    ...
    ```
  }];
  let options = [
    Option<"terms", "terms", "int64_t", "64", "Most terms that one kernel adds; it has code for each">
  ];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def QuantizeMatmulsPass : Pass<"shale-quantize-matmuls", "::mlir::ModuleOp"> {
  let summary = "Rounds operands of matmuls to 8-bit floats";
  let description = [{
    Replaces each `nn.matmul` with `quantized` by a `nn.quantized_matmul`. An operand is multiplied by
    the largest finite number of its 8-bit float type / its largest magnitude, rounded, and stored
    with the terms of a sum next to each other: transposed, if the matmul reads it so. An operand
    that matmuls read both ways is stored twice; fusion then makes one kernel of both. The largest
    magnitude of each row comes first, so that a kernel that computes rows computes it, too. The
    matmuls of a phase share operands, and all matmuls share the scale of a value.

    Largest magnitudes are those of the tensors of a rank: there is no communication. A matmul whose
    sizes are not all multiples of 16 on a rank stays as it is, without `quantized`, with a remark.

    Before:
    ```mlir
    func.func @step(%x: tensor<16x32xbf16>) -> tensor<16x16xbf16> {
      %y = nn.matmul %x, %x transpose_rhs quantized [f8E4M3FN, f8E4M3FN] : (tensor<16x32xbf16>, tensor<16x32xbf16>) -> tensor<16x16xbf16>
      return %y : tensor<16x16xbf16>
    }
    ```

    After:
    ```mlir
    func.func @step(%x: tensor<16x32xbf16>) -> tensor<16x16xbf16> {
      %0 = nn.cast %x : tensor<16x32xbf16> -> tensor<16x32xf32>
      %1 = nn.abs %0 : tensor<16x32xf32>
      %2 = nn.reduce max %1 dims = [1] : tensor<16x32xf32> -> tensor<16xf32>
      %3 = nn.reduce max %2 dims = [0] : tensor<16xf32> -> tensor<f32>
      %4 = nn.constant dense<9.99999996E-13> : tensor<f32>
      %5 = nn.max %3, %4 : tensor<f32>
      %6 = nn.constant dense<4.480000e+02> : tensor<f32>
      %7 = nn.div %6, %5 : tensor<f32>
      %8 = nn.constant dense<1.000000e+00> : tensor<f32>
      %9 = nn.div %8, %7 : tensor<f32>
      %10 = nn.cast %x : tensor<16x32xbf16> -> tensor<16x32xf32>
      %11 = nn.broadcast %7 dims = [] : tensor<f32> -> tensor<16x32xf32>
      %12 = nn.mul %10, %11 : tensor<16x32xf32>
      %13 = nn.quantize %12 : tensor<16x32xf32> -> tensor<16x32xf8E4M3FN>
      %14 = nn.quantized_matmul %13, %13 scales %9, %9 : tensor<16x32xf8E4M3FN>, tensor<16x32xf8E4M3FN> -> tensor<16x16xbf16>
      return %14 : tensor<16x16xbf16>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

#endif // SHALE_PASSES_FUSION_QUANTIZE_TD
