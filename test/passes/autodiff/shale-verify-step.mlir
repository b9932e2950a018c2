// RUN: shale-opt %s --shale-verify-step --split-input-file --verify-diagnostics

module {
  // expected-error@+1 {{@forward is still there}}
  func.func @forward() {
    return
  }
}

// -----

// expected-error@+1 {{there is no function @step of one block}}
module {
}

// -----

module {
  func.func @step() {
    // expected-error@+1 {{has no nn.phase}}
    %0 = nn.constant dense<1.0> : tensor<f32>
    return
  }
}

// -----

module {
  // expected-error@+1 {{argument 0 has neither nn.state nor nn.role}}
  func.func @step(%a: tensor<f32>) {
    return
  }
}

// -----

module {
  // expected-error@+1 {{the metric loss is not a result}}
  func.func @step() {
    return
  }
}

// -----

// A trained parameter is not updated.
module {
  // expected-error@+1 {{is to be updated, but @step does not return it}}
  nn.state @w role = param type = tensor<f32>
  func.func @step(%w: tensor<f32> {nn.state = @w}) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}, tensor<f32> {nn.name = "enable"}) {
    return %w, %w, %w : tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// A frozen parameter is updated.
module {
  // expected-error@+1 {{must not change, but @step returns it}}
  nn.state @w role = param type = tensor<f32> {trained = false}
  func.func @step(%w: tensor<f32> {nn.state = @w}) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}, tensor<f32> {nn.name = "enable"}, tensor<f32> {nn.state = @w}) {
    return %w, %w, %w, %w : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// A function that accumulates must return all accumulators.
module attributes {nn.accumulate = 2 : i64} {
  nn.state @w role = param type = tensor<f32> {trained = false}
  nn.state @s role = grad_accumulator type = tensor<f32>
  func.func @step(%w: tensor<f32> {nn.state = @w}) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}, tensor<f32> {nn.name = "enable"}) {
    return %w, %w, %w : tensor<f32>, tensor<f32>, tensor<f32>
  }
  func.func @evaluate() {
    return
  }
  // expected-error@+1 {{result 0 must be an accumulator or running statistic that is an argument, once}}
  func.func @accumulate_first(%w: tensor<f32> {nn.state = @w}) -> (tensor<f32> {nn.state = @w}) {
    return %w : tensor<f32>
  }
}

// -----

module attributes {nn.accumulate = 2 : i64} {
  nn.state @w role = param type = tensor<f32> {trained = false}
  // expected-error@+1 {{@accumulate_first does not return it}}
  nn.state @s role = grad_accumulator type = tensor<f32>
  func.func @step(%w: tensor<f32> {nn.state = @w}) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}, tensor<f32> {nn.name = "enable"}) {
    return %w, %w, %w : tensor<f32>, tensor<f32>, tensor<f32>
  }
  func.func @evaluate() {
    return
  }
  func.func @accumulate_first() {
    return
  }
}

// -----

// A running statistic changes in each micro-batch.
module attributes {nn.accumulate = 2 : i64} {
  // expected-error@+1 {{@accumulate_first does not return it}}
  nn.state @m role = running type = tensor<f32>
  func.func @step(%m: tensor<f32> {nn.state = @m}) -> (tensor<f32> {nn.name = "loss"}, tensor<f32> {nn.name = "grad_norm"}, tensor<f32> {nn.name = "enable"}, tensor<f32> {nn.state = @m}) {
    return %m, %m, %m, %m : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
  }
  func.func @evaluate() {
    return
  }
  func.func @accumulate_first() {
    return
  }
}

// -----

// expected-error@+1 {{must be a number of micro-batches from 2 to 65535}}
module attributes {nn.accumulate = 1 : i64} {
}
