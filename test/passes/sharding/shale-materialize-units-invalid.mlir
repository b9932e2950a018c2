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
    %p, %v = nn.sgd %a, %g, %ma enable %e scale %lr lr %lr momentum %lr weight_decay %lr decay = 1.0 : tensor<4xf32>, tensor<f32>
    // expected-error@+1 {{differs from the update of another parameter of group 'f32' of unit 'root'}}
    %q, %w = nn.sgd %b, %g, %mb enable %e scale %lr lr %mu momentum %lr weight_decay %lr decay = 1.0 : tensor<4xf32>, tensor<f32>
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
    %p, %v = nn.sgd %a, %g, %ma enable %e scale %lr lr %lr momentum %lr weight_decay %lr decay = 1.0 : tensor<4xf32>, tensor<f32>
    return %p, %v : tensor<4xf32>, tensor<4xf32>
  }
}
