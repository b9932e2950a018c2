// RUN: shale-opt %s --canonicalize | FileCheck %s

// A module that keeps the collectives of axes of one rank.
module attributes {dist.keep_single_rank} {
  dist.mesh @mesh <[shard "one"=1, tensor "tp"=2]>
  // CHECK-LABEL: func.func @kept
  func.func @kept(%a: tensor<4x8xf32>) -> tensor<4x8xf32> {
    // CHECK-NEXT: dist.all_gather %{{.*}} over "one"
    // CHECK-NEXT: dist.reduce_scatter sum %{{.*}} over "one"
    // CHECK-NEXT: dist.all_reduce sum %{{.*}} over "one"
    %0 = dist.all_gather %a over "one" dim = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
    %1 = dist.reduce_scatter sum %0 over "one" dim = 0 : tensor<4x8xf32> -> tensor<4x8xf32>
    %2 = dist.all_reduce sum %1 over "one" : tensor<4x8xf32>
    return %2 : tensor<4x8xf32>
  }
}
