// RUN: shale-opt %s --shale-partition --split-input-file --verify-diagnostics

// The pass before it has not run.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @w role = param type = tensor<4xf32>
  // expected-error@+1 {{argument 0 has no sharding}}
  func.func @step(%w: tensor<4xf32> {nn.state = @w}) {
    return
  }
}

// -----

module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  func.func @step(%x: tensor<4xf32> {dist.sharding = #dist.sharding<[{}]>}) -> tensor<4xf32> {
    // expected-error@+1 {{'nn.tanh' op result 0 has no sharding}}
    %0 = nn.tanh %x : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// An argument that is not a tensor.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  // expected-error@+1 {{argument 0 has no sharding}}
  func.func @step(%x: f32) {
    return
  }
}

// -----

module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  // expected-error@+1 {{must have one block to be partitioned}}
  func.func private @step()
}
