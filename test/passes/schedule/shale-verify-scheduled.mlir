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

// -----

// Three units are whole at the first matmul, of which it reads one: the other two are brought for later ones.
#group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = []>
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#group]
dist.unit @b on @mesh["fsdp"] groups = [#group]
dist.unit @c on @mesh["fsdp"] groups = [#group]
func.func @step(%x: tensor<16xf32>, %shard_a: tensor<8xf32>, %shard_b: tensor<8xf32>, %shard_c: tensor<8xf32>) -> tensor<16xf32> {
  %pending_a = dist.start %shard_a : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
  ^bb0(%sent: tensor<8xf32>):
    %whole = dist.unit_gather %sent @a[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
    dist.yield %whole : tensor<16xf32>
  }
  %pending_b = dist.start %shard_b : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
  ^bb0(%sent: tensor<8xf32>):
    %whole = dist.unit_gather %sent @b[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
    dist.yield %whole : tensor<16xf32>
  }
  // expected-error @+1 {{brings unit 'c' too early: 3 units are whole or in flight at once, of which 1 are in use; at most 2 may be}}
  %pending_c = dist.start %shard_c : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
  ^bb0(%sent: tensor<8xf32>):
    %whole = dist.unit_gather %sent @c[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
    dist.yield %whole : tensor<16xf32>
  }
  %a = dist.wait %pending_a : !dist.pending<tensor<16xf32>>
  // expected-note @+1 {{at this op}}
  %y = nn.mul %x, %a : tensor<16xf32>
  %b = dist.wait %pending_b : !dist.pending<tensor<16xf32>>
  %z = nn.mul %y, %b : tensor<16xf32>
  %c = dist.wait %pending_c : !dist.pending<tensor<16xf32>>
  %v = nn.mul %z, %c : tensor<16xf32>
  return %v : tensor<16xf32>
}

// -----

// All three are in use at one op: no order has fewer.
#group = #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = []>
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#group]
dist.unit @b on @mesh["fsdp"] groups = [#group]
dist.unit @c on @mesh["fsdp"] groups = [#group]
func.func @step(%shard_a: tensor<8xf32>, %shard_b: tensor<8xf32>, %shard_c: tensor<8xf32>) -> tensor<48xf32> {
  %pending_a = dist.start %shard_a : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
  ^bb0(%sent: tensor<8xf32>):
    %whole = dist.unit_gather %sent @a[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
    dist.yield %whole : tensor<16xf32>
  }
  %a = dist.wait %pending_a : !dist.pending<tensor<16xf32>>
  %pending_b = dist.start %shard_b : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
  ^bb0(%sent: tensor<8xf32>):
    %whole = dist.unit_gather %sent @b[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
    dist.yield %whole : tensor<16xf32>
  }
  %b = dist.wait %pending_b : !dist.pending<tensor<16xf32>>
  %pending_c = dist.start %shard_c : tensor<8xf32> -> !dist.pending<tensor<16xf32>> {
  ^bb0(%sent: tensor<8xf32>):
    %whole = dist.unit_gather %sent @c[0] over "fsdp" : tensor<8xf32> -> tensor<16xf32>
    dist.yield %whole : tensor<16xf32>
  }
  %c = dist.wait %pending_c : !dist.pending<tensor<16xf32>>
  %v = nn.concat %a, %b, %c dim = 0 : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<48xf32>
  return %v : tensor<48xf32>
}
