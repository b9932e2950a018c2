// RUN: shale-opt %s --shale-propagate --shale-partition --shale-materialize-units --split-input-file --verify-diagnostics

module attributes {dist.strategy = #dist.strategy<grad>} {
  // expected-error@+1 {{strategy 'grad' needs an axis of kind shard, which the mesh does not have}}
  dist.mesh @mesh <[replica "replica"=2]>
  func.func @step() {
    return
  }
}

// -----

// New state must come from an update.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @w role = param type = tensor<4xf32>
  // expected-error@+1 {{result 0 is a new value of state @w that no optimizer update makes}}
  func.func @step(%w: tensor<4xf32> {nn.state = @w}) -> (tensor<4xf32> {nn.state = @w}) {
    %0 = nn.neg %w : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// Updates of one group that differ in more than decay.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @a role = param type = tensor<4xf32>
  nn.state @b role = param type = tensor<4xf32>
  nn.state @a.momentum role = moment("momentum") type = tensor<4xf32> {of = @a}
  nn.state @b.momentum role = moment("momentum") type = tensor<4xf32> {of = @b}
  func.func @step(%a: tensor<4xf32> {nn.state = @a}, %b: tensor<4xf32> {nn.state = @b},
      %ma: tensor<4xf32> {nn.state = @a.momentum}, %mb: tensor<4xf32> {nn.state = @b.momentum},
      %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"}, %mu: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "mu"})
      -> (tensor<4xf32> {nn.state = @a}, tensor<4xf32> {nn.state = @b}, tensor<4xf32> {nn.state = @a.momentum}, tensor<4xf32> {nn.state = @b.momentum}) {
    %g = nn.neg %a : tensor<4xf32>
    %e = nn.constant dense<true> : tensor<i1>
    %p, %v = nn.sgd %a, %g, %ma enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
    // expected-error@+1 {{differs from the update of another parameter of group 'f32' of unit 'root'}}
    %q, %w = nn.sgd %b, %g, %mb enable %e scale %lr lr %mu momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
    return %p, %q, %v, %w : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A gradient is accumulated, but the update reads only that of the last micro-batch.
module attributes {nn.accumulate = 2 : i64} {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @a role = param type = tensor<4xf32>
  nn.state @a.momentum role = moment("momentum") type = tensor<4xf32> {of = @a}
  nn.state @a.sum role = grad_accumulator type = tensor<4xf32> {of = @a}
  func.func @step(%a: tensor<4xf32> {nn.state = @a}, %sum: tensor<4xf32> {nn.state = @a.sum}, %ma: tensor<4xf32> {nn.state = @a.momentum},
      %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4xf32> {nn.state = @a}, tensor<4xf32> {nn.state = @a.momentum}) {
    %g = nn.neg %a : tensor<4xf32>
    %all = nn.accumulate @a %g into %sum : tensor<4xf32> : tensor<4xf32>
    %e = nn.constant dense<true> : tensor<i1>
    // expected-error@+1 {{must read the sum of the gradients of all micro-batches}}
    %p, %v = nn.sgd %a, %g, %ma enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
    return %p, %v : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// An argument that names the state of another shape.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @a role = param type = tensor<4xf32>
  nn.state @b role = param type = tensor<8xf32>
  // expected-error@+1 {{argument 0 is of type 'tensor<4xf32>', its state @b of type 'tensor<8xf32>'}}
  func.func @step(%a: tensor<4xf32> {nn.state = @b}) -> tensor<4xf32> {
    return %a : tensor<4xf32>
  }
}

// -----

// Two arguments that name the same state.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @a role = param type = tensor<4xf32>
  // expected-error@+1 {{the state @a is an argument twice}}
  func.func @step(%a: tensor<4xf32> {nn.state = @a}, %b: tensor<4xf32> {nn.state = @a}) -> tensor<4xf32> {
    return %b : tensor<4xf32>
  }
}

// -----

// The parameter of an update names no state.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @a role = param type = tensor<4xf32>
  nn.state @a.momentum role = moment("momentum") type = tensor<4xf32> {of = @a}
  func.func @step(%a: tensor<4xf32>, %ma: tensor<4xf32>, %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"}) -> (tensor<4xf32>, tensor<4xf32>) {
    %e = nn.constant dense<true> : tensor<i1>
    // expected-error@+1 {{must update a parameter that is an argument}}
    %p, %v = nn.sgd %a, %a, %ma enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
    return %p, %v : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// An update with the moment of another parameter.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @a role = param type = tensor<4xf32>
  nn.state @b role = param type = tensor<4xf32>
  nn.state @b.momentum role = moment("momentum") type = tensor<4xf32> {of = @b}
  func.func @step(%a: tensor<4xf32> {nn.state = @a}, %mb: tensor<4xf32> {nn.state = @b.momentum}, %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4xf32> {nn.state = @a}, tensor<4xf32> {nn.state = @b.momentum}) {
    %e = nn.constant dense<true> : tensor<i1>
    // expected-error@+1 {{must have arguments as optimizer state, moments of 'a'}}
    %p, %v = nn.sgd %a, %a, %mb enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
    return %p, %v : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// A moment as the weight of the forward pass: the flat moments cannot replace it.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @a role = param type = tensor<4xf32>
  nn.state @a.momentum role = moment("momentum") type = tensor<4xf32> {of = @a}
  func.func @evaluate(%ma: tensor<4xf32> {nn.state = @a.momentum}) -> tensor<4xf32> {
    // expected-error@+1 {{reads @a.momentum, state that only the update or the accumulation of its parameter may read}}
    %0 = nn.neg %ma : tensor<4xf32>
    return %0 : tensor<4xf32>
  }
}

// -----

// Results of an update under the names of others, or under none.
module {
  dist.mesh @mesh <[shard "fsdp"=2]>
  nn.state @a role = param type = tensor<4xf32>
  nn.state @a.momentum role = moment("momentum") type = tensor<4xf32> {of = @a}
  // expected-error@+1 {{result 0 is the new value of state 'a', which its nn.state does not name}}
  func.func @step(%a: tensor<4xf32> {nn.state = @a}, %ma: tensor<4xf32> {nn.state = @a.momentum}, %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4xf32> {nn.state = @a.momentum}, tensor<4xf32>) {
    %e = nn.constant dense<true> : tensor<i1>
    %p, %v = nn.sgd %a, %a, %ma enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
    return %p, %v : tensor<4xf32>, tensor<4xf32>
  }
}

// -----

// The second part has a row of padding, which is none of the matrix that Muon orthogonalizes.
module attributes {dist.strategy = #dist.strategy<none>} {
  dist.mesh @mesh <[shard "fsdp"=2, tensor "tp"=2]>
  nn.state @w role = divided type = tensor<7x4xf32>
  // expected-error@+1 {{the update of 'w' needs the whole matrix, which tensor axes divide in parts that are padded or split in different ways: --optimizer-for 'w=adamw', or a mesh without tensor axes}}
  nn.state @"w/0" role = param type = tensor<4x4xf32> {unit = "u", nn.part = #nn.part<@w, dim = 0, begin = 0>}
  nn.state @"w/1" role = param type = tensor<4x4xf32> {unit = "u", nn.part = #nn.part<@w, dim = 0, begin = 4, padding = 1>}
  nn.state @m0 role = moment("momentum") type = tensor<4x4xf32> {of = @"w/0"}
  nn.state @m1 role = moment("momentum") type = tensor<4x4xf32> {of = @"w/1"}
  func.func @step(%w0: tensor<4x4xf32> {nn.state = @"w/0"}, %w1: tensor<4x4xf32> {nn.state = @"w/1"}, %m0: tensor<4x4xf32> {nn.state = @m0},
                  %m1: tensor<4x4xf32> {nn.state = @m1}, %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4x4xf32> {nn.state = @"w/0"}, tensor<4x4xf32> {nn.state = @"w/1"}, tensor<4x4xf32> {nn.state = @m0}, tensor<4x4xf32> {nn.state = @m1}) {
    %e = nn.constant dense<true> : tensor<i1>
    %g0 = nn.neg %w0 {nn.phase = #nn.phase<backward>} : tensor<4x4xf32>
    %g1 = nn.neg %w1 {nn.phase = #nn.phase<backward>} : tensor<4x4xf32>
    %p0, %n0 = nn.muon %w0, %g0, %m0 enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<4x4xf32>, tensor<f32>
    %p1, %n1 = nn.muon %w1, %g1, %m1 enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<4x4xf32>, tensor<f32>
    return %p0, %p1, %n0, %n1 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

// LAMB needs the norm of the whole parameter, of which a tensor axis splits one part and not the other.
module attributes {dist.strategy = #dist.strategy<none>} {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = divided type = tensor<8x8xf32>
  // expected-error@+1 {{the update of 'w' needs sums over the parameter, of which tensor axes split some parts and leave others whole: --tensor 'w=whole', --optimizer adamw, or a mesh without tensor axes}}
  nn.state @"w/0" role = param type = tensor<4x8xf32> {unit = "block", nn.part = #nn.part<@w, dim = 0, begin = 0>}
  nn.state @"w/1" role = param type = tensor<4x8xf32> {unit = "block", nn.part = #nn.part<@w, dim = 0, begin = 4>}
  nn.state @m01 role = moment("moment1") type = tensor<4x8xf32> {of = @"w/0"}
  nn.state @m02 role = moment("moment2") type = tensor<4x8xf32> {of = @"w/0"}
  nn.state @m11 role = moment("moment1") type = tensor<4x8xf32> {of = @"w/1"}
  nn.state @m12 role = moment("moment2") type = tensor<4x8xf32> {of = @"w/1"}
  func.func @step(%a: tensor<4x8xf32> {nn.state = @"w/0", dist.sharding = #dist.sharding<[{"tp"}, {}]>}, %b: tensor<4x8xf32> {nn.state = @"w/1"}, %m: tensor<4x8xf32> {nn.state = @m01}, %v: tensor<4x8xf32> {nn.state = @m02}, %n: tensor<4x8xf32> {nn.state = @m11}, %u: tensor<4x8xf32> {nn.state = @m12}, %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4x8xf32> {nn.state = @"w/0"}, tensor<4x8xf32> {nn.state = @"w/1"}, tensor<4x8xf32> {nn.state = @m01}, tensor<4x8xf32> {nn.state = @m02}, tensor<4x8xf32> {nn.state = @m11}, tensor<4x8xf32> {nn.state = @m12}) {
    %e = nn.constant dense<true> : tensor<i1>
    %ga = nn.neg %a {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
    %gb = nn.neg %b {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
    %a1, %m1, %v1 = nn.lamb %a, %ga, %m, %v enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s {nn.phase = #nn.phase<update>} : tensor<4x8xf32>, tensor<f32>
    %b1, %n1, %u1 = nn.lamb %b, %gb, %n, %u enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s {nn.phase = #nn.phase<update>} : tensor<4x8xf32>, tensor<f32>
    return %a1, %b1, %m1, %v1, %n1, %u1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}
