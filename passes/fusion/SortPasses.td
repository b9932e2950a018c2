//===- SortPasses.td - Passes of the fusion stage that sort ---------------===//
#ifndef SHALE_PASSES_FUSION_SORT_TD
#define SHALE_PASSES_FUSION_SORT_TD

include "mlir/Pass/PassBase.td"

def SortLookupsPass : Pass<"shale-sort-lookups", "::mlir::ModuleOp"> {
  let summary = "Sorts the indices of lookups' gradients";
  let description = [{
    If the target asks for it (`Target::sortsLookups`), the pass replaces `nn.embedding_grad`
    by a stable sort of the indices, the sums of each 32 sorted rows, and the sum of each
    table row from its sorted rows and those sums. The order of each sum is fixed, and so are
    its bits. Many threads then add the rows of a frequent word, which the kernel of
    `nn.embedding_grad` adds one after another. Lookups by the same indices in one phase
    share the sort. If a sum of squares reads the gradient, perhaps packed alone, the op
    that sums the rows sums the squares of each, too: the gradient need not be read again
    for its norm. A gradient that is summed over ranks or micro-batches first, or that is
    a term of another, is read again. On a CPU the pass changes nothing.

    Before:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @gradient(%ids: tensor<2x1024xi64>, %dy: tensor<2x1024x64xbf16>) -> tensor<500x64xf32> {
        %0 = nn.embedding_grad %ids, %dy : (tensor<2x1024xi64>, tensor<2x1024x64xbf16>) -> tensor<500x64xf32>
        return %0 : tensor<500x64xf32>
      }
    }
    ```

    After:
    ```mlir
    module attributes {nn.target = "cuda:sm_90a"} {
      func.func @gradient(%ids: tensor<2x1024xi64>, %dy: tensor<2x1024x64xbf16>) -> tensor<500x64xf32> {
        %order, %starts = nn.argsort %ids bound = 500 : tensor<2x1024xi64> -> tensor<2048xi32>, tensor<501xi32>
        %0 = nn.reshape %dy : tensor<2x1024x64xbf16> -> tensor<2048x64xbf16>
        %1 = nn.embedding %0, %order : (tensor<2048x64xbf16>, tensor<2048xi32>) -> tensor<2048x64xbf16>
        %2 = nn.cast %1 : tensor<2048x64xbf16> -> tensor<2048x64xf32>
        %3 = nn.reshape %2 : tensor<2048x64xf32> -> tensor<64x32x64xf32>
        %4 = nn.reduce sum %3 dims = [1] : tensor<64x32x64xf32> -> tensor<64x64xf32>
        %5 = nn.sorted_embedding_grad %order, %starts, %0, %4
            : (tensor<2048xi32>, tensor<501xi32>, tensor<2048x64xbf16>, tensor<64x64xf32>) -> tensor<500x64xf32>
        return %5 : tensor<500x64xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

def SortExpertsPass : Pass<"shale-sort-experts", "::mlir::ModuleOp"> {
  let summary = "Puts the rows of each expert next to each other";
  let description = [{
    `nn.expert_matmul` becomes `nn.grouped_matmul` of rows in the order of their experts, a counting
    sort (`nn.argsort`). What is computed from row to row between two such matmuls is computed with
    the sorted rows. Tokens that were repeated for each of their experts are moved instead. Each
    rank sorts its own rows.

    Before:
    ```mlir
    module {
      func.func @experts(%x: tensor<6x4xf32>, %w: tensor<3x4x8xf32>, %v: tensor<3x8x4xf32>, %experts: tensor<6xi64>) -> tensor<6x4xf32> {
        %0 = nn.expert_matmul %x, %w experts = %experts : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<6xi64>) -> tensor<6x8xf32>
        %1 = nn.silu %0 : tensor<6x8xf32>
        %2 = nn.expert_matmul %1, %v experts = %experts : (tensor<6x8xf32>, tensor<3x8x4xf32>, tensor<6xi64>) -> tensor<6x4xf32>
        return %2 : tensor<6x4xf32>
      }
    }
    ```

    After:
    ```mlir
    module {
      func.func @experts(%x: tensor<6x4xf32>, %w: tensor<3x4x8xf32>, %v: tensor<3x8x4xf32>, %experts: tensor<6xi64>) -> tensor<6x4xf32> {
        %order, %starts = nn.argsort %experts bound = 3 : tensor<6xi64> -> tensor<6xi32>, tensor<4xi32>
        %0 = nn.slice %starts starts = [1] limits = [4] strides = [1] : tensor<4xi32> -> tensor<3xi32>
        %places, %starts_1 = nn.argsort %order bound = 6 : tensor<6xi32> -> tensor<6xi32>, tensor<7xi32>
        %1 = nn.gather %x, %order dim = 0 : (tensor<6x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
        %2 = nn.grouped_matmul %1, %w ends = %0 : (tensor<6x4xf32>, tensor<3x4x8xf32>, tensor<3xi32>) -> tensor<6x8xf32>
        %3 = nn.silu %2 : tensor<6x8xf32>
        %4 = nn.grouped_matmul %3, %v ends = %0 : (tensor<6x8xf32>, tensor<3x8x4xf32>, tensor<3xi32>) -> tensor<6x4xf32>
        %5 = nn.gather %4, %places dim = 0 : (tensor<6x4xf32>, tensor<6xi32>) -> tensor<6x4xf32>
        return %5 : tensor<6x4xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::shale::nn::NNDialect"];
}

#endif // SHALE_PASSES_FUSION_SORT_TD
