// RUN: shale-opt %s --shale-propagate --shale-partition --split-input-file --verify-diagnostics

// The storage of a parameter is not a sharding of its uses.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @w role = param type = tensor<4xf32>
  // expected-error@+1 {{is split at use over data axis 'fsdp': the strategy, not the sharding at use, splits state over data axes}}
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

// -----

// Means over rows and columns need the whole parameter.
module {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = param type = tensor<4x8xf32>
  nn.state @w.variance role = moment("variance") type = tensor<12xf32> {of = @w}
  func.func @step(%w: tensor<4x8xf32> {nn.state = @w, dist.sharding = #dist.sharding<[{"tp"}, {}]>}, %v: tensor<12xf32> {nn.state = @w.variance},
                  %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4x8xf32> {nn.state = @w}, tensor<12xf32> {nn.state = @w.variance}) {
    %e = nn.constant dense<true> : tensor<i1>
    // expected-error@+1 {{is not elementwise, and its parameter is split over axis 'tp': such a parameter needs an elementwise optimizer}}
    %p, %m = nn.adafactor %w, %w, %v enable %e scale %s lr %s beta2_decay %s epsilon %s, %s clip %s weight_decay %s weight %s limit %s decay = 1.0 : tensor<4x8xf32> state tensor<12xf32>, tensor<f32>
    return %p, %m : tensor<4x8xf32>, tensor<12xf32>
  }
}

// -----

// A part of a parameter has another norm than the parameter.
module {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = divided type = tensor<8x8xf32>
  nn.state @"w/0" role = param type = tensor<4x8xf32> {nn.part = #nn.part<@w, dim = 0, begin = 0>}
  nn.state @m role = moment("moment1") type = tensor<4x8xf32> {of = @"w/0"}
  nn.state @v role = moment("moment2") type = tensor<4x8xf32> {of = @"w/0"}
  func.func @step(%w: tensor<4x8xf32> {nn.state = @"w/0"}, %m: tensor<4x8xf32> {nn.state = @m}, %v: tensor<4x8xf32> {nn.state = @v},
                  %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4x8xf32> {nn.state = @"w/0"}, tensor<4x8xf32> {nn.state = @m}, tensor<4x8xf32> {nn.state = @v}) {
    %e = nn.constant dense<true> : tensor<i1>
    // expected-error@+1 {{is not elementwise, and 'w/0' is a part of a parameter, made for a tensor axis: such a parameter needs an elementwise optimizer, or a mesh without tensor axes}}
    %w1, %m1, %v1 = nn.lamb %w, %w, %m, %v enable %e scale %s lr %s betas %s, %s epsilon %s weight_decay %s bias %s, %s decay = 1.0 : tensor<4x8xf32>, tensor<f32>
    return %w1, %m1, %v1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}
