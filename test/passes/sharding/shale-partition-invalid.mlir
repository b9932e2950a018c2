// RUN: shale-opt %s --shale-propagate --shale-partition --split-input-file --verify-diagnostics

// How a parameter is stored is no sharding at use.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @w role = param type = tensor<4xf32>
  // expected-error@+1 {{is split at use over data axis 'fsdp': how it is stored is the strategy's affair}}
  func.func @step(%w: tensor<4xf32> {nn.state = @w, dist.sharding = #dist.sharding<[{"fsdp"}]>}) {
    return
  }
}

// -----

// Two functions, two layouts.
module {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = param type = tensor<4xf32>
  func.func @step(%w: tensor<4xf32> {nn.state = @w, dist.sharding = #dist.sharding<[{"tp"}]>}) {
    return
  }
  // expected-error@+1 {{state @w has another sharding than in another function}}
  func.func @evaluate(%w: tensor<4xf32> {nn.state = @w}) {
    return
  }
}

// -----

// expected-error@+1 {{is partitioned already}}
module attributes {dist.partitioned} {
  dist.mesh @mesh <[shard "fsdp"=2]>
  func.func @step() {
    return
  }
}
