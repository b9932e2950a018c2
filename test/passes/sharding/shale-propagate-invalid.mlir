// RUN: shale-opt %s --shale-propagate --split-input-file --verify-diagnostics

// expected-error@+1 {{has no mesh: run --shale-annotate-mesh first}}
module {
}

// -----

module {
  dist.mesh @mesh <[replica "replica"=2, shard "fsdp"=2]>
  func.func @step(
    // expected-error@+1 {{a batch of 6 in input 'ids' does not divide over the 4 ranks of the data axes: use 4 or 8, or another multiple of 4, or a mesh whose data axes have a product that divides 6}}
    %x: tensor<6x3xi64> {nn.role = #nn.role<input>, nn.name = "ids", nn.batch_dim = 0 : i64}) {
    return
  }
}

// -----

module {
  dist.mesh @mesh <[shard "fsdp"=4]>
  func.func @step(
    // expected-error@+1 {{a batch of 2 in input 'ids' does not divide over the 4 ranks of the data axes: use 4, or another}}
    %x: tensor<2x3xi64> {nn.role = #nn.role<input>, nn.name = "ids", nn.batch_dim = 0 : i64}) {
    return
  }
}

// -----

module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  // expected-error@+1 {{must have one block to be partitioned}}
  func.func private @outside(tensor<4xf32>)
}

// -----

// Data files and checkpoints have contiguous parts; blocks are for values, and for state in blocks.
module {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = param type = tensor<4x8xf32>
  // expected-error@+1 {{argument 0 must be split into contiguous parts; got #dist.sharding<[{"tp" in 2}, {}]>}}
  func.func @step(%w: tensor<4x8xf32> {nn.state = @w, dist.sharding = #dist.sharding<[{"tp" in 2}, {}]>}) {
    return
  }
}
