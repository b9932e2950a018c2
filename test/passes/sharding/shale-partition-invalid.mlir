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
    // expected-error@+1 {{is not elementwise, and 'w' of 'tensor<4x8xf32>' is split over the 2 ranks of axis 'tp': keep it whole with --tensor 'w=whole', or use --optimizer adamw, lamb or muon}}
    %p, %m = nn.adafactor %w, %w, %v enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s : tensor<4x8xf32> state tensor<12xf32>, tensor<f32>
    return %p, %m : tensor<4x8xf32>, tensor<12xf32>
  }
}

// -----

// The means of a part are not those of the parameter.
module {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = divided type = tensor<8x8xf32>
  nn.state @"w/0" role = param type = tensor<4x8xf32> {nn.part = #nn.part<@w, dim = 0, begin = 0>}
  nn.state @v role = moment("variance") type = tensor<12xf32> {of = @"w/0"}
  func.func @step(%w: tensor<4x8xf32> {nn.state = @"w/0"}, %v: tensor<12xf32> {nn.state = @v},
                  %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4x8xf32> {nn.state = @"w/0"}, tensor<12xf32> {nn.state = @v}) {
    %e = nn.constant dense<true> : tensor<i1>
    // expected-error@+1 {{is not elementwise, and 'w/0' is a part of 'w', made for a tensor axis: keep it whole with --tensor 'w=whole', or use --optimizer adamw, lamb or muon, or a mesh without tensor axes}}
    %p, %n = nn.adafactor %w, %w, %v enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s : tensor<4x8xf32> state tensor<12xf32>, tensor<f32>
    return %p, %n : tensor<4x8xf32>, tensor<12xf32>
  }
}
