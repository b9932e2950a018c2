// RUN: shale-opt %s --verify-roundtrip | FileCheck %s

dist.mesh @mesh <[shard "fsdp"=2]>

// CHECK-LABEL: func.func @split
func.func @split(%a: tensor<f32>) -> tensor<f32> {
  // CHECK: %[[P:.*]] = dist.start %{{.*}} : tensor<f32> -> !dist.pending<tensor<f32>>
  // CHECK: dist.all_reduce sum
  // CHECK: dist.yield
  %p = dist.start %a : tensor<f32> -> !dist.pending<tensor<f32>> {
  ^bb0(%x: tensor<f32>):
    %r = dist.all_reduce sum %x over "fsdp" : tensor<f32>
    dist.yield %r : tensor<f32>
  }
  // CHECK: dist.wait %[[P]] : !dist.pending<tensor<f32>>
  %0 = dist.wait %p : !dist.pending<tensor<f32>>
  return %0 : tensor<f32>
}
