// Ranks exchange only sums, and slices along the first dimension.
// RUN: shale-opt %s --split-input-file --shale-verify-collectives --verify-diagnostics

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @good(%a: tensor<4x6xf32>) -> (tensor<8x6xf32>, tensor<2x6xf32>, tensor<4x6xf32>) {
  %0 = dist.all_gather %a over "fsdp" dim = 0 : tensor<4x6xf32> -> tensor<8x6xf32>
  %1 = dist.reduce_scatter sum %a over "fsdp" dim = 0 : tensor<4x6xf32> -> tensor<2x6xf32>
  %2 = dist.all_reduce sum %a over "fsdp" : tensor<4x6xf32>
  %unused = dist.all_gather %a over "fsdp" dim = 1 : tensor<4x6xf32> -> tensor<4x12xf32>
  return %0, %1, %2 : tensor<8x6xf32>, tensor<2x6xf32>, tensor<4x6xf32>
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @gather(%a: tensor<4x6xf32>) -> tensor<4x12xf32> {
  // expected-error @below {{needs 'tensor<4x6xf32>', which is split over axis 'fsdp', in another layout, and the runtime has no all-gather along dimension 1: the batch is split along a dimension that this op needs whole; name the dimension of the examples with --batch-dim INPUT:D}}
  %0 = dist.all_gather %a over "fsdp" dim = 1 : tensor<4x6xf32> -> tensor<4x12xf32>
  return %0 : tensor<4x12xf32>
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @scatter(%a: tensor<4x6xf32>) -> tensor<4x3xf32> {
  // expected-error @below {{no reduce-scatter along dimension 1}}
  %0 = dist.reduce_scatter sum %a over "fsdp" dim = 1 : tensor<4x6xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @max(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  // expected-error @below {{no all-reduce but of sums}}
  %0 = dist.all_reduce max %a over "fsdp" : tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
func.func @exchange(%a: tensor<4x6xf32>) -> tensor<8x3xf32> {
  // expected-error @below {{no all-to-all}}
  %0 = dist.all_to_all %a over "fsdp" split = 1 concat = 0 : tensor<4x6xf32> -> tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}
