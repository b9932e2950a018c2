// RUN: shale-opt %s --shale-verify-sharded --split-input-file --verify-diagnostics

// expected-error@+1 {{has no mesh}}
module {
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
// expected-error@+1 {{argument 0 has no sharding}}
func.func @argument(%a: tensor<4xf32>) {
  return
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @op(%a: tensor<4xf32> {dist.sharding = #dist.sharding<[{"fsdp"}]>}) {
  // expected-error@+1 {{result 0 has no sharding}}
  %0 = nn.neg %a : tensor<4xf32>
  return
}

// -----

// A sum over a split dimension must be partial.
dist.mesh @mesh <[shard "fsdp"=2]>
func.func @partial(%a: tensor<4xf32> {dist.sharding = #dist.sharding<[{"fsdp"}], partial = {}>}) {
  // expected-error@+1 {{result 0 cannot have the sharding #dist.sharding<[{}], partial = {"fsdp": sum}> with these shardings of the operands}}
  %0 = nn.exp %a {dist.shardings = [#dist.sharding<[{}], partial = {"fsdp": sum}>]} : tensor<4xf32>
  return
}

// -----

// The dimension of a softmax must be whole.
dist.mesh @mesh <[shard "fsdp"=2]>
func.func @whole(%a: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{}, {"fsdp"}]>}) {
  // expected-error@+1 {{result 0 cannot have the sharding #dist.sharding<[{}, {"fsdp"}]> with these shardings of the operands}}
  %0 = nn.softmax %a {dist.shardings = [#dist.sharding<[{}, {"fsdp"}]>]} : tensor<4x4xf32>
  return
}
