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
  // expected-error@+1 {{result 0 cannot have the sharding #dist.sharding<[{}], partial = {"fsdp": sum}> where its factors are split as #dist.sharding<[{"fsdp"}]>}}
  %0 = nn.exp %a {dist.factors = #dist.sharding<[{"fsdp"}]>, dist.shardings = [#dist.sharding<[{}], partial = {"fsdp": sum}>]} : tensor<4xf32>
  return
}

// -----

// Without factors nothing is split.
dist.mesh @mesh <[shard "fsdp"=2]>
func.func @unsplit(%a: tensor<4xf32> {dist.sharding = #dist.sharding<[{"fsdp"}]>}) {
  // expected-error@+1 {{result 0 cannot have the sharding #dist.sharding<[{"fsdp"}]> where its factors are split as #dist.sharding<[{}]>}}
  %0 = nn.exp %a {dist.shardings = [#dist.sharding<[{"fsdp"}]>]} : tensor<4xf32>
  return
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @count(%a: tensor<4xf32> {dist.sharding = #dist.sharding<[{"fsdp"}]>}) {
  // expected-error@+1 {{has 1 factors, 'dist.factors' is of 2}}
  %0 = nn.exp %a {dist.factors = #dist.sharding<[{"fsdp"}, {}]>, dist.shardings = [#dist.sharding<[{"fsdp"}]>]} : tensor<4xf32>
  return
}

// -----

// The dimension of a softmax must be whole.
dist.mesh @mesh <[shard "fsdp"=2]>
func.func @whole(%a: tensor<4x4xf32> {dist.sharding = #dist.sharding<[{}, {"fsdp"}]>}) {
  // expected-error@+1 {{axis 'fsdp' cannot split its factor 1}}
  %0 = nn.softmax %a {dist.factors = #dist.sharding<[{}, {"fsdp"}]>, dist.shardings = [#dist.sharding<[{}, {"fsdp"}]>]} : tensor<4x4xf32>
  return
}

// -----

// Only linear ops add up partial sums.
dist.mesh @mesh <[shard "fsdp"=2]>
func.func @sums(%a: tensor<4xf32> {dist.sharding = #dist.sharding<[{}], partial = {"fsdp": sum}>}) {
  // expected-error@+1 {{cannot add up partial sums on axis 'fsdp'}}
  %0 = nn.exp %a {dist.factors = #dist.sharding<[{}], partial = {"fsdp": sum}>, dist.shardings = [#dist.sharding<[{}], partial = {"fsdp": sum}>]} : tensor<4xf32>
  return
}
