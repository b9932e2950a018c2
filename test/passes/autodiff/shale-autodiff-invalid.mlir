// RUN: shale-opt %s --shale-autodiff --split-input-file --verify-diagnostics

// expected-error@+1 {{there is no function @forward to train}}
module {
}

// -----

// No parameter is trained.
nn.state @w role = param type = tensor<4xf32> {trained = false}
// expected-error@+1 {{there is no parameter to train}}
func.func @forward(%w: tensor<4xf32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %0, %0, %0 : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// The function returns only the loss, without the sum and count that evaluation needs.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{must return three scalars: loss, loss_sum and count}}
func.func @forward(%w: tensor<4xf32> {nn.state = @w}) -> tensor<f32> {
  %0 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %0 : tensor<f32>
}

// -----

// The loss is not a scalar.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{expected @forward to return float scalars, got 'tensor<4xf32>'}}
func.func @forward(%w: tensor<4xf32> {nn.state = @w}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  return %w, %w, %w : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// An op between a parameter and the loss has no gradient: the error names the path.
nn.state @w role = param type = tensor<4xf32>
func.func @forward(
    %w: tensor<4xf32> {nn.state = @w},
    %i: tensor<2xi64> {nn.role = #nn.role<input>, nn.name = "i"}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.exp %w : tensor<4xf32>
  // expected-error@+2 {{no gradient: nn.gather lies on a path from a trained parameter to the loss}}
  // expected-note@+1 {{the path from parameter 'w': nn.exp -> nn.gather; freeze it, or express the op in others}}
  %1 = nn.gather %0, %i dim = 0 : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  %2 = nn.reduce sum %1 dims = [0] : tensor<2xf32> -> tensor<f32>
  return %2, %2, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// One error lists all ops without a gradient, including those further from the loss.
nn.state @v role = param type = tensor<9xf32>
nn.state @w role = param type = tensor<4xf32>
func.func @forward(
    %v: tensor<9xf32> {nn.state = @v}, %w: tensor<4xf32> {nn.state = @w},
    %i: tensor<4xi64> {nn.role = #nn.role<input>, nn.name = "i"}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  // expected-note@+1 {{no gradient either: nn.gather; the path from parameter 'v': nn.gather}}
  %0 = nn.gather %v, %i dim = 0 : (tensor<9xf32>, tensor<4xi64>) -> tensor<4xf32>
  %1 = nn.mul %0, %w : tensor<4xf32>
  // expected-error@+2 {{no gradient: nn.gather lies on a path from a trained parameter to the loss}}
  // expected-note@+1 {{the path from parameter 'v': nn.gather -> nn.mul -> nn.gather; freeze it, or express the op in others}}
  %2 = nn.gather %1, %i dim = 0 : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>
  %3 = nn.reduce sum %2 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %3, %3, %3 : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// A parameter that is not read.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{the loss does not depend on the trained parameter 'v': nothing uses it}}
nn.state @v role = param type = tensor<4xf32>
func.func @forward(%w: tensor<4xf32> {nn.state = @w}, %v: tensor<4xf32> {nn.state = @v}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %0, %0, %0 : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// The only path from a parameter to the loss has no gradient.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{the loss does not depend on the trained parameter 'v': no gradient passes its only path: nn.floor -> nn.mul -> nn.reduce}}
nn.state @v role = param type = tensor<4xf32>
func.func @forward(%w: tensor<4xf32> {nn.state = @w}, %v: tensor<4xf32> {nn.state = @v}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.floor %v : tensor<4xf32>
  %1 = nn.mul %w, %0 : tensor<4xf32>
  %2 = nn.reduce sum %1 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %2, %2, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// A parameter on which the loss does not depend.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{the loss does not depend on the trained parameter 'v': its influence ends at nn.exp -> nn.log}}
nn.state @v role = param type = tensor<4xf32>
func.func @forward(%w: tensor<4xf32> {nn.state = @w}, %v: tensor<4xf32> {nn.state = @v}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.exp %v : tensor<4xf32>
  %1 = nn.log %0 : tensor<4xf32>
  %2 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %2, %2, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// The name of a moment is already used.
// expected-error@+1 {{its moment1 is to be named @"w.moment1", which is taken}}
nn.state @w role = param type = tensor<4xf32>
nn.state @w.moment1 role = param type = tensor<4xf32>
func.func @forward(%w: tensor<4xf32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %2 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %2, %2, %2 : tensor<f32>, tensor<f32>, tensor<f32>
}
