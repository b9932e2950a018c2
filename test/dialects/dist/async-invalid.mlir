// RUN: shale-opt %s --split-input-file --verify-diagnostics

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @start_c1(%a: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{must hold one collective of its operand and a yield}}
  %p = dist.start %a : tensor<f32> -> !dist.pending<tensor<f32>> {
  ^bb0(%x: tensor<f32>):
    dist.yield %x : tensor<f32>
  }
  %0 = dist.wait %p : !dist.pending<tensor<f32>>
  return %0 : tensor<f32>
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @start_c2(%a: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{result must be pending of 'tensor<4xf32>'}}
  %p = dist.start %a : tensor<2xf32> -> !dist.pending<tensor<2xf32>> {
  ^bb0(%x: tensor<2xf32>):
    %r = dist.all_gather %x over "fsdp" dim = 0 : tensor<2xf32> -> tensor<4xf32>
    dist.yield %r : tensor<4xf32>
  }
  %0 = dist.wait %p : !dist.pending<tensor<2xf32>>
  return %0 : tensor<2xf32>
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @start_c3(%a: tensor<f32>) {
  // expected-error@+1 {{must be waited for exactly once}}
  %p = dist.start %a : tensor<f32> -> !dist.pending<tensor<f32>> {
  ^bb0(%x: tensor<f32>):
    %r = dist.all_reduce sum %x over "fsdp" : tensor<f32>
    dist.yield %r : tensor<f32>
  }
  return
}

// -----

func.func @wait_c1(%p: !dist.pending<tensor<f32>>) {
  // expected-error@+1 {{must wait for a dist.start}}
  %0 = dist.wait %p : !dist.pending<tensor<f32>>
  return
}
