//===- Passes.td - Passes of the fusion stage -----------------------------===//
#ifndef SHALE_PASSES_FUSION_TD
#define SHALE_PASSES_FUSION_TD

include "lib/Options/Options.td"
include "mlir/Pass/PassBase.td"
include "passes/fusion/QuantizePasses.td"
include "passes/fusion/SortPasses.td"

def ConvertGathersPass : Pass<"shale-convert-gathers", "::mlir::ModuleOp"> {
  let summary = "Casts shards to the type in which they are gathered";
  let description = [{
    A `dist.unit_gather` whose shard and result have different element types becomes
    an `nn.cast` of the shard and a gather of the cast shards, so that shards are
    converted before they are sent. Over an axis of one rank only the cast remains,
    unless the module has `dist.keep_single_rank`.

    Before:
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 8, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @u on @mesh["fsdp"] groups = [#group]
    func.func @forward(%shard: tensor<4xf32>) -> tensor<8xbf16> {
      %whole = dist.unit_gather %shard @u[0] over "fsdp" : tensor<4xf32> -> tensor<8xbf16>
      return %whole : tensor<8xbf16>
    }
    ```

    After:
    ```mlir
    #group = #dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 8, segments = []>
    dist.mesh @mesh <[shard "fsdp"=2]>
    dist.unit @u on @mesh["fsdp"] groups = [#group]
    func.func @forward(%shard: tensor<4xf32>) -> tensor<8xbf16> {
      %half = nn.cast %shard : tensor<4xf32> -> tensor<4xbf16>
      %whole = dist.unit_gather %half @u[0] over "fsdp" : tensor<4xbf16> -> tensor<8xbf16>
      return %whole : tensor<8xbf16>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def WidenPass : Pass<"shale-widen", "::mlir::ModuleOp"> {
  let summary = "Computes ops on 16-bit floats in f32";
  let description = [{
    If the target does not support an op on 16-bit floats, its operands are cast to
    f32, and each 16-bit result is rounded once, by a cast after the op. Ops that
    only move elements are not changed. Values keep their types, so other ranks and
    steps see the same bits.

    `Target::takes16BitFloats` tells which ops the target supports: library calls and
    dedicated kernels, on the targets of Shale. A matmul rounds as it writes if only
    its rounded result is read. All other ops become part of a kernel, and so do the
    casts: no f32 copy of a 16-bit value is stored.

    The matmul supports bf16 operands, the addition does not.

    Before:
    ```mlir
    func.func @forward(%x: tensor<4x8xbf16>, %weight: tensor<8x8xbf16>) -> tensor<4x8xbf16> {
      %h = nn.matmul %x, %weight : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
      %y = nn.add %h, %x : tensor<4x8xbf16>
      return %y : tensor<4x8xbf16>
    }
    ```

    After:
    ```mlir
    func.func @forward(%x: tensor<4x8xbf16>, %weight: tensor<8x8xbf16>) -> tensor<4x8xbf16> {
      %h = nn.matmul %x, %weight : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
      %wide_h = nn.cast %h : tensor<4x8xbf16> -> tensor<4x8xf32>
      %wide_x = nn.cast %x : tensor<4x8xbf16> -> tensor<4x8xf32>
      %sum = nn.add %wide_h, %wide_x : tensor<4x8xf32>
      %y = nn.cast %sum : tensor<4x8xf32> -> tensor<4x8xbf16>
      return %y : tensor<4x8xbf16>
    }
    ```

    Only the rounded result of the matmul is read, so the matmul rounds as it writes.

    Before:
    ```mlir
    func.func @gradient(%x: tensor<4x8xbf16>, %dy: tensor<4x8xbf16>) -> tensor<8x8xbf16> {
      %sum = nn.matmul %x, %dy transpose_lhs : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
      %dw = nn.cast %sum : tensor<8x8xf32> -> tensor<8x8xbf16>
      return %dw : tensor<8x8xbf16>
    }
    ```

    After:
    ```mlir
    func.func @gradient(%x: tensor<4x8xbf16>, %dy: tensor<4x8xbf16>) -> tensor<8x8xbf16> {
      %dw = nn.matmul %x, %dy transpose_lhs : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
      return %dw : tensor<8x8xbf16>
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def DecomposePass : Pass<"shale-decompose", "::mlir::ModuleOp"> {
  let summary = "Decomposes ops that have no library call or dedicated kernel";
  let description = [{
    Replaces every `DecomposableOpInterface` op for which the target has no kernel by its
    decomposition, until none is left, and erases unused ops. With `all`, ops with a
    dedicated kernel are decomposed, too.

    Before:
    ```mlir
    func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %y = nn.softmax %x : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:
    ```mlir
    func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %max = nn.reduce max %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
      %max_rows = nn.broadcast %max dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
      %shifted = nn.sub %x, %max_rows : tensor<4x8xf32>
      %exp = nn.exp %shifted : tensor<4x8xf32>
      %sum = nn.reduce sum %exp dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
      %sum_rows = nn.broadcast %sum dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
      %y = nn.div %exp, %sum_rows : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    Attention has a kernel, so only `all` decomposes it.

    Before (with `all`):
    ```mlir
    func.func @attention(%q: tensor<1x1x4x8xf32>, %k: tensor<1x1x4x8xf32>, %v: tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32> {
      %o, %lse = nn.attention %q, %k, %v scale = 0.5
          : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32> -> tensor<1x1x4x8xf32>, tensor<1x1x4xf32>
      return %o : tensor<1x1x4x8xf32>
    }
    ```

    After:
    ```mlir
    ...
    %2 = nn.matmul %0, %1 transpose_rhs : (tensor<1x4x8xf32>, tensor<1x4x8xf32>) -> tensor<1x4x4xf32>
    ...
    %9 = nn.exp %8 : tensor<1x1x4x4xf32>
    ...
    %15 = nn.matmul %14, %13 : (tensor<1x4x4xf32>, tensor<1x4x8xf32>) -> tensor<1x4x8xf32>
    ...
    ```
  }];
  let options = [Option<"all", "all", "bool", "false", "Decompose ops that have a kernel of their own, too">];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def CallAttentionPass : Pass<"shale-call-attention", "::mlir::ModuleOp"> {
  let summary = "Replaces attention by library calls";
  let description = [{
    An `nn.attention` that the target's library computes (`Target::isLibraryCall`) becomes
    `nn.sdpa`, and its gradient `nn.sdpa_grad`. These take heads after positions, as the
    matmuls around attention write and read them. The transpositions in between
    disappear, also behind a `mem.barrier`. Query, key and value that are the parts of each row of one tensor, in
    order, become one operand. Gradients that are only joined in this order become one
    result. Attention with masks, dropout or f32 values stays, and later becomes
    matmuls and generated kernels; a remark gives the reason. In a build
    without the target's attention library the pass changes nothing.

    Before:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @forward(%x: tensor<2x8x4x16xbf16>) -> tensor<2x8x4x16xbf16> {
        %q = nn.transpose %x perm = [0, 2, 1, 3] : tensor<2x8x4x16xbf16> -> tensor<2x4x8x16xbf16>
        %o, %lse = nn.attention %q, %q, %q causal scale = 0.25
            : tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16>, tensor<2x4x8x16xbf16> -> tensor<2x4x8x16xbf16>, tensor<2x4x8xf32>
        %y = nn.transpose %o perm = [0, 2, 1, 3] : tensor<2x4x8x16xbf16> -> tensor<2x8x4x16xbf16>
        return %y : tensor<2x8x4x16xbf16>
      }
    }
    ```

    After:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @forward(%x: tensor<2x8x4x16xbf16>) -> tensor<2x8x4x16xbf16> {
        %y, %lse = nn.sdpa %x, %x, %x causal scale = 2.500000e-01 : tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16>, tensor<2x8x4x16xbf16> -> tensor<2x8x4x16xbf16>, tensor<2x4x8xf32>
        return %y : tensor<2x8x4x16xbf16>
      }
    }
    ```
  }];
  let options = FlagsOf<"shale-call-attention">.options;
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def JoinMatmulsPass : Pass<"shale-join-matmuls", "::mlir::ModuleOp"> {
  let summary = "Computes the gradients of layers that read one value by one matmul";
  let description = [{
    Linear layers that read one value, such as gate and up of an MLP, or query, key and value of an attention, each have a
    matmul dy W whose results are summed, and a matmul of dy and x for the gradient of W. If the weights
    follow one another in their unit, both become one matmul of joined matrices: the sum is then
    over the columns of [dy1, dy2, ..], and is rounded once. Widths may differ, as those of grouped heads do.
    A kernel writes the joined rows. Where a dy comes from a library, a kernel copies it; the pass joins layers
    only if they have no more copied columns than the results that it leaves out.

    The pass joins layers on targets where one matmul is faster (`Target::joinsMatmuls`). On a CPU it changes nothing.

    Before:
    ```mlir
    #q = #dist.segment<@q, offset = 0, shape = [32, 64]>
    #k = #dist.segment<@k, offset = 2048, shape = [32, 64]>
    #group = #dist.group<"bf16", type = bf16, wire = bf16, reduce = f32, trained = true, axes = [], count = 4096, segments = [#q, #k]>
    module attributes {nn.target = "cuda:sm_90a"} {
      dist.mesh @mesh <[shard "fsdp"=1]>
      dist.unit @u on @mesh["fsdp"] groups = [#group]
      func.func @step(%flat: tensor<4096xbf16>, %x: tensor<16x64xbf16>, %dq: tensor<16x32xf32>, %dk: tensor<16x32xf32>)
          -> (tensor<16x64xf32>, tensor<4096xf32>) {
        %q = dist.unit_view %flat @u[0] @q : tensor<4096xbf16> -> tensor<32x64xbf16>
        %k = dist.unit_view %flat @u[0] @k : tensor<4096xbf16> -> tensor<32x64xbf16>
        %dq_half = nn.cast %dq : tensor<16x32xf32> -> tensor<16x32xbf16>
        %dk_half = nn.cast %dk : tensor<16x32xf32> -> tensor<16x32xbf16>
        %dx_q = nn.matmul %dq_half, %q : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
        %dx_k = nn.matmul %dk_half, %k : (tensor<16x32xbf16>, tensor<32x64xbf16>) -> tensor<16x64xbf16>
        %dw_q = nn.matmul %dq_half, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
        %dw_k = nn.matmul %dk_half, %x transpose_lhs : (tensor<16x32xbf16>, tensor<16x64xbf16>) -> tensor<32x64xf32>
        %wide_q = nn.cast %dx_q : tensor<16x64xbf16> -> tensor<16x64xf32>
        %wide_k = nn.cast %dx_k : tensor<16x64xbf16> -> tensor<16x64xf32>
        %dx = nn.add %wide_q, %wide_k : tensor<16x64xf32>
        %packed = dist.unit_pack @u[0] [@q, @k](%dw_q, %dw_k) : (tensor<32x64xf32>, tensor<32x64xf32>) -> tensor<4096xf32>
        return %dx, %packed : tensor<16x64xf32>, tensor<4096xf32>
      }
    }
    ```

    After:
    ```mlir
    ...
    %2 = nn.concat %0, %1 dim = 1 : (tensor<16x32xbf16>, tensor<16x32xbf16>) -> tensor<16x64xbf16>
    %3 = dist.unit_view %arg0 @u[0] @q : tensor<4096xbf16> -> tensor<64x64xbf16>
    %4 = nn.matmul %2, %3 : (tensor<16x64xbf16>, tensor<64x64xbf16>) -> tensor<16x64xbf16>
    %5 = nn.cast %4 : tensor<16x64xbf16> -> tensor<16x64xf32>
    %6 = nn.matmul %2, %arg1 transpose_lhs : (tensor<16x64xbf16>, tensor<16x64xbf16>) -> tensor<64x64xf32>
    %7 = dist.unit_pack @u[0] [@q](%6) : (tensor<64x64xf32>) -> tensor<4096xf32>
    ...
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect", "::shale::dist::DistDialect"];
}

def PadMatmulsPass : Pass<"shale-pad-matmuls", "::mlir::ModuleOp"> {
  let summary = "Pads odd sizes of matmuls";
  let description = [{
    Pads the operands of a matmul with zeros, to the sizes that the target prefers
    (`Target::paddedSize`), and slices the result. On GPUs, matmuls of 16-bit floats are
    slow unless rows are a multiple of 16 bytes. The matmuls of a phase share padded
    operands.

    A loss reads padded logits with minus infinity in the added columns, which leaves its
    results as they are (trait `AbsentClasses`). The gradient of these columns is 0 and
    needs no padding as an operand of further matmuls. Matmuls of fewer than `least-work`
    operations stay as they are.

    Before (with `least-work=0`):
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @step(%x: tensor<64x64xbf16>, %w: tensor<65x64xbf16>, %labels: tensor<64xi64>) -> tensor<f32> {
        %logits = nn.matmul %x, %w transpose_rhs : (tensor<64x64xbf16>, tensor<65x64xbf16>) -> tensor<64x65xbf16>
        %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<64x65xbf16>, tensor<64xi64>
        return %sum : tensor<f32>
      }
    }
    ```

    After:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @step(%x: tensor<64x64xbf16>, %w: tensor<65x64xbf16>, %labels: tensor<64xi64>) -> tensor<f32> {
        %0 = nn.pad %w low = [0, 0] high = [7, 0] interior = [0, 0] value = 0.000000e+00 : tensor<65x64xbf16> -> tensor<72x64xbf16>
        %1 = nn.matmul %x, %0 transpose_rhs : (tensor<64x64xbf16>, tensor<72x64xbf16>) -> tensor<64x72xbf16>
        %2 = nn.cast %1 : tensor<64x72xbf16> -> tensor<64x72xf32>
        %3 = nn.iota dim = 1 : tensor<64x72xi64>
        %4 = nn.constant dense<65> : tensor<64x72xi64>
        %5 = nn.compare lt %3, %4 : tensor<64x72xi64> -> tensor<64x72xi1>
        %6 = nn.constant dense<0xFF800000> : tensor<64x72xf32>
        %7 = nn.select %5, %2, %6 : tensor<64x72xi1>, tensor<64x72xf32>
        %sum, %count, %lse = nn.cross_entropy %7, %labels ignore_index = -100 : tensor<64x72xf32>, tensor<64xi64>
        return %sum : tensor<f32>
      }
    }
    ```
  }];
  let options = [Option<"leastWork", "least-work", "int64_t", "1 << 30",
                        "floating-point operations of the smallest matmul that is padded">];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def CallEpiloguesPass : Pass<"shale-call-epilogues", "::mlir::ModuleOp"> {
  let summary = "Fuses bias, GELU and the gradient of GELU into the library call of the matmul before them";
  let description = [{
    If the target's library has matmuls with epilogues (`Target::isLibraryCall`), a 16-bit matmul
    becomes `nn.matmul_epilogue` with
    - the bias that is added to it, if library calls read the rounded sum,
    - the bias and a GELU by the approximation with tanh, if library calls read the rounded result.
      In a function with a backward pass the values before the GELU are a second result. This holds
      for those that are recomputed, too, so that both have the same bits,
    - the gradient of such a GELU that it is multiplied with, if library calls read the result.

    If a kernel of the same phase can compute the value, nothing changes: with an epilogue the kernel
    would only read more. On a CPU the pass changes nothing.

    Before:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @forward(%x: tensor<64x64xbf16>, %w: tensor<64x256xbf16>, %b: tensor<256xbf16>, %v: tensor<256x64xbf16>) -> tensor<64x64xbf16> {
        %p = nn.matmul %x, %w : (tensor<64x64xbf16>, tensor<64x256xbf16>) -> tensor<64x256xbf16>
        %rows = nn.broadcast %b dims = [1] : tensor<256xbf16> -> tensor<64x256xbf16>
        %p32 = nn.cast %p : tensor<64x256xbf16> -> tensor<64x256xf32>
        %b32 = nn.cast %rows : tensor<64x256xbf16> -> tensor<64x256xf32>
        %sum = nn.add %p32, %b32 : tensor<64x256xf32>
        %z = nn.gelu %sum tanh : tensor<64x256xf32>
        %y = nn.cast %z : tensor<64x256xf32> -> tensor<64x256xbf16>
        %q = nn.matmul %y, %v : (tensor<64x256xbf16>, tensor<256x64xbf16>) -> tensor<64x64xbf16>
        return %q : tensor<64x64xbf16>
      }
    }
    ```

    After:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @forward(%x: tensor<64x64xbf16>, %w: tensor<64x256xbf16>, %b: tensor<256xbf16>, %v: tensor<256x64xbf16>) -> tensor<64x64xbf16> {
        %y = nn.matmul_epilogue gelu %x, %w with %b : (tensor<64x64xbf16>, tensor<64x256xbf16>, tensor<256xbf16>) -> tensor<64x256xbf16>
        %q = nn.matmul %y, %v : (tensor<64x256xbf16>, tensor<256x64xbf16>) -> tensor<64x64xbf16>
        return %q : tensor<64x64xbf16>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def SplitReductionsPass : Pass<"shale-split-reductions", "::mlir::ModuleOp"> {
  let summary = "Reduces in two stages where a target needs more parallel work";
  let description = [{
    A reduction over leading or over trailing dimensions to few results becomes two:
    one of equal parts, which are independent, and one of their results. The target
    determines the number of parts (`Target::reductionParts`); on a CPU it is 1. Then
    the pass changes nothing. The pass takes a number near it that divides the
    elements of a result. The order of each sum is fixed, and so are its bits.

    A bias gradient on a GPU: 512 parts of 128 rows each.

    Before:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @gradient(%dy: tensor<64x1024x128xf32>) -> tensor<128xf32> {
        %bias = nn.reduce sum %dy dims = [0, 1] : tensor<64x1024x128xf32> -> tensor<128xf32>
        return %bias : tensor<128xf32>
      }
    }
    ```

    After:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @gradient(%dy: tensor<64x1024x128xf32>) -> tensor<128xf32> {
        %parts = nn.reshape %dy : tensor<64x1024x128xf32> -> tensor<512x128x128xf32>
        %sums = nn.reduce sum %parts dims = [1] : tensor<512x128x128xf32> -> tensor<512x128xf32>
        %bias = nn.reduce sum %sums dims = [0] : tensor<512x128xf32> -> tensor<128xf32>
        return %bias : tensor<128xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def FusionPass : Pass<"shale-fusion", "::mlir::ModuleOp"> {
  let summary = "Puts ops that become one kernel into one nn.cluster";
  let description = [{
    After the pass, all `ElementwiseOpInterface` ops, and all `IndexedOpInterface` ops that move or compute
    elements, are in clusters. A cluster has one domain of R rows and C columns. Its
    values have R*C elements, or R elements (one per row); all others are read
    through an index map. A 16-bit value that is read as f32 is stored in 16 bits and
    widened by each cluster that reads it. What costs less to compute than to store, such as
    a bias that is added to a matmul, is computed by each reader, also in the backward pass. So are the operands of
    a concatenation, if that reads fewer bytes. A value and what a `mem.barrier` returns of it are one operand.
    A dedicated kernel that can store casts of its results, such as the update of a flat group, is in
    a cluster with them. Fusion changes no bits. With `singletons` each op becomes a cluster of its own.

    If the target has kernels of rows that also sum columns (`Target::columnSumParts`), the first
    of two stages of such a sum joins the rows that it is over. The pass then sets the number of
    its parts, and only the order of the sum changes. Rows may be those of a concatenation if each
    row is of one operand.

    If the target has kernels that store a matrix and its transpose (`Target::storesTransposes`),
    `nn.transpose` of a matrix with other readers joins the ops that compute the matrix, unless these
    belong to rows.

    Recomputed ops join ops that read the same operands, and perhaps others, at the same places, so
    that a kernel reads the shared operands once. An example is an activation beside its
    gradient. If the target has kernels that compute all parts of a concatenation at one place
    (`Target::storesParts`), the other ops may be such parts: the gradients of gate and up.

    The matmul is a library call. The ops after it become one kernel, which writes
    its result in place of its operand.

    Before:
    ```mlir
    func.func @forward(%x: tensor<4x8xf32>, %weight: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %h = nn.matmul %x, %weight : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %exp = nn.exp %h : tensor<4x8xf32>
      %sum = nn.reduce sum %exp dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
      %sum_rows = nn.broadcast %sum dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
      %y = nn.div %exp, %sum_rows : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:
    ```mlir
    func.func @forward(%x: tensor<4x8xf32>, %weight: tensor<8x8xf32>) -> tensor<4x8xf32> {
      %h = nn.matmul %x, %weight : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
      %y = nn.cluster (%in = %h : tensor<4x8xf32>) -> tensor<4x8xf32> aliases [0] {
        %exp = nn.exp %in : tensor<4x8xf32>
        %sum = nn.reduce sum %exp dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
        %sum_rows = nn.broadcast %sum dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
        %out = nn.div %exp, %sum_rows : tensor<4x8xf32>
        nn.yield %out : tensor<4x8xf32>
      }
      return %y : tensor<4x8xf32>
    }
    ```

    Before (with `singletons`):
    ```mlir
    func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %exp = nn.exp %x : tensor<4x8xf32>
      %y = nn.neg %exp : tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    }
    ```

    After:
    ```mlir
    func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %exp = nn.cluster (%in = %x : tensor<4x8xf32>) -> tensor<4x8xf32> aliases [0] {
        %out = nn.exp %in : tensor<4x8xf32>
        nn.yield %out : tensor<4x8xf32>
      }
      %y = nn.cluster (%in = %exp : tensor<4x8xf32>) -> tensor<4x8xf32> aliases [0] {
        %out = nn.neg %in : tensor<4x8xf32>
        nn.yield %out : tensor<4x8xf32>
      }
      return %y : tensor<4x8xf32>
    }
    ```
  }];
  let options = [Option<"singletons", "singletons", "bool", "false", "Put each op into its own cluster">];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def SplitClustersPass : Pass<"shale-split-clusters", "::mlir::ModuleOp"> {
  let summary = "Splits clusters that have no kernel schedule; rejects ops that have no kernel";
  let description = [{
    The exit contract of fusion: after the pass, code generation succeeds for every
    cluster and every op with a dedicated kernel. The pass generates the kernel of
    each distinct one as a trial. If no kernel can be generated for a cluster, the
    cluster is split into one cluster per op. An op without a kernel of its own is an
    error. One error lists the first 21 such ops, each with the reason.

    The results have no rows in common, so no schedule computes both.

    Before:
    ```mlir
    func.func @forward(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
      %out:2 = nn.cluster (%a = %x : tensor<4xf32>, %b = %y : tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
        %exp = nn.exp %a : tensor<4xf32>
        %neg = nn.neg %b : tensor<6xf32>
        nn.yield %exp, %neg : tensor<4xf32>, tensor<6xf32>
      }
      return %out#0, %out#1 : tensor<4xf32>, tensor<6xf32>
    }
    ```

    After:
    ```mlir
    func.func @forward(%x: tensor<4xf32>, %y: tensor<6xf32>) -> (tensor<4xf32>, tensor<6xf32>) {
      %0 = nn.cluster (%a = %x : tensor<4xf32>) -> tensor<4xf32> aliases [0] {
        %exp = nn.exp %a : tensor<4xf32>
        nn.yield %exp : tensor<4xf32>
      }
      %1 = nn.cluster (%b = %y : tensor<6xf32>) -> tensor<6xf32> aliases [0] {
        %neg = nn.neg %b : tensor<6xf32>
        nn.yield %neg : tensor<6xf32>
      }
      return %0, %1 : tensor<4xf32>, tensor<6xf32>
    }
    ```

    A matmul cannot be part of a cluster's kernel.

    Refused:
    ```mlir
    func.func @forward(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
      %y = nn.cluster (%a = %x : tensor<4x4xf32>) -> tensor<4x4xf32> {
        %matmul = nn.matmul %a, %a : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
        nn.yield %matmul : tensor<4x4xf32>
      }
      return %y : tensor<4x4xf32>
    }
    ```
    with "'nn.matmul' has no kernel on this target".
  }];
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::memref::MemRefDialect",
    "::mlir::scf::SCFDialect", "::mlir::vector::VectorDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::func::FuncDialect", "::shale::nn::NNDialect"
  ];
}

#endif // SHALE_PASSES_FUSION_TD
