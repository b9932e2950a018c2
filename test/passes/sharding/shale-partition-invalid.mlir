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

// A part may not end inside of a block of elements that have one scale.
module attributes {nn.optimizer = "adamw8bit"} {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = param type = tensor<4x256xf32>
  nn.state @w.1 role = moment("moment1_8bit") type = tensor<260xi32> {of = @w}
  nn.state @w.2 role = moment("moment2_8bit") type = tensor<260xi32> {of = @w}
  func.func @step(%w: tensor<4x256xf32> {nn.state = @w, dist.sharding = #dist.sharding<[{}, {"tp"}]>}, %m: tensor<260xi32> {nn.state = @w.1},
                  %v: tensor<260xi32> {nn.state = @w.2}, %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4x256xf32> {nn.state = @w}, tensor<260xi32> {nn.state = @w.1}, tensor<260xi32> {nn.state = @w.2}) {
    %e = nn.constant dense<true> : tensor<i1>
    // expected-error@+1 {{cannot update parts of 'w' of 'tensor<4x256xf32>': adamw8bit has one scale per 256 elements, and parts would be cut after 128; keep it whole with --tensor 'w=whole'}}
    %p, %m1, %v1 = nn.adamw8bit %w, %w, %m, %v enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s : tensor<4x256xf32> state tensor<260xi32>, tensor<f32>
    return %p, %m1, %v1 : tensor<4x256xf32>, tensor<260xi32>, tensor<260xi32>
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
    // expected-error@+1 {{cannot update parts of 'w' of 'tensor<4x8xf32>': its state is that of the whole parameter; keep it whole with --tensor 'w=whole', or use --optimizer adamw, lamb or muon, or a mesh without tensor axes}}
    %p, %n = nn.adafactor %w, %w, %v enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s : tensor<4x8xf32> state tensor<12xf32>, tensor<f32>
    return %p, %n : tensor<4x8xf32>, tensor<12xf32>
  }
}
