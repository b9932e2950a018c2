// RUN: shale-opt %s --shale-verify-scheduled --split-input-file --verify-diagnostics

// A collective outside of a dist.start.
dist.mesh @mesh <[shard "fsdp"=2]>
func.func @step(%x: tensor<f32>) -> tensor<f32> {
  // expected-error @+1 {{is not scheduled: it must be inside a dist.start}}
  %0 = dist.all_reduce sum %x over "fsdp" : tensor<f32>
  return %0 : tensor<f32>
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @step(%x: tensor<f32>) -> tensor<f32> {
  %p = dist.start %x : tensor<f32> -> !dist.pending<tensor<f32>> {
  ^bb0(%a: tensor<f32>):
    %r = dist.all_reduce sum %a over "fsdp" : tensor<f32>
    dist.yield %r : tensor<f32>
  }
  %0 = dist.wait %p : !dist.pending<tensor<f32>>
  return %0 : tensor<f32>
}
