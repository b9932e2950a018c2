// Collectives along other dimensions, and an all-to-all, give the same values before and after they are lowered, on two ranks.
// RUN: shale-opt %s --shale-lower-collectives --shale-verify-collectives -o %t.mlir 2>%t.warnings
// RUN: FileCheck %s --check-prefix=WARNING --input-file %t.warnings
// RUN: shale-run --as=f64 --ranks=2 %s --compare %t.mlir
// WARNING: warning: needs 'tensor<4x3xf32>' split along another dimension, so each rank gathers all of it

// Another order of the results is noticed.
// RUN: sed 's/\(return .whole, .\)twice\(, .\)rows/\1rows\2twice/' %s > %t.other.mlir
// RUN: not shale-run --as=f64 --ranks=2 %t.other.mlir --compare %t.mlir
dist.mesh @mesh <[shard "fsdp"=2]>
func.func @f(%a: tensor<4x6xf32>) -> (tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>) {
  %own = dist.slice %a over "fsdp" dim = 1 : tensor<4x6xf32> -> tensor<4x3xf32>
  %whole = dist.all_gather %own over "fsdp" dim = 1 : tensor<4x3xf32> -> tensor<4x6xf32>
  %part = dist.reduce_scatter sum %a over "fsdp" dim = 1 : tensor<4x6xf32> -> tensor<4x3xf32>
  %twice = dist.all_gather %part over "fsdp" dim = 1 : tensor<4x3xf32> -> tensor<4x6xf32>
  %turned = dist.all_to_all %own over "fsdp" split = 0 concat = 1 : tensor<4x3xf32> -> tensor<2x6xf32>
  %rows = dist.all_gather %turned over "fsdp" dim = 0 : tensor<2x6xf32> -> tensor<4x6xf32>
  %max = dist.all_reduce max %a over "fsdp" : tensor<4x6xf32>
  return %whole, %twice, %rows, %max : tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>, tensor<4x6xf32>
}
