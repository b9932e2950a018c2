// RUN: shale-opt %s --shale-verify-memory --split-input-file --verify-diagnostics

// A unit that stays whole must be gathered once.
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = []>]
func.func @step(%a: tensor<16xf32>) -> (tensor<32xf32>, tensor<32xf32>) {
  // expected-error@+1 {{group 0 of unit 'a' is gathered 2 times in @step, expected 1}}
  %0 = dist.unit_gather %a @a[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
  %1 = dist.unit_gather %a @a[0] over "fsdp" : tensor<16xf32> -> tensor<32xf32>
  return %0, %1 : tensor<32xf32>, tensor<32xf32>
}

// -----

// A value that should be recomputed is kept.
func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note@+1 {{made here}}
  %0 = nn.exp %x {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<4xf32>
  // expected-error@+1 {{reads a result with mem.recompute after the forward pass: it must read the recomputed op}}
  %1 = nn.neg %0 {nn.phase = #nn.phase<backward>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// -----

func.func @step(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{is recomputed, but a mem.barrier is missing}}
  %1 = nn.exp %x {mem.recomputed, nn.phase = #nn.phase<backward>} : tensor<4xf32>
  return %1 : tensor<4xf32>
}
