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

// -----

// Some gradients are given, but not all.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{@forward has gradients, but none of the trained parameter 'v'; freeze it, or give its gradient, too}}
nn.state @v role = param type = tensor<4xf32>
func.func @forward(%w: tensor<4xf32> {nn.state = @w}, %v: tensor<4xf32> {nn.state = @v})
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.gradient_of = @w}) {
  %0 = nn.mul %w, %v : tensor<4xf32>
  %1 = nn.reduce sum %0 dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1, %1, %1, %v : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
}

// -----

// A gradient twice.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{the gradient of 'w' is a result of @forward twice}}
func.func @forward(%w: tensor<4xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.gradient_of = @w}, tensor<4xf32> {nn.gradient_of = @w}) {
  %1 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1, %1, %1, %w, %w : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>
}

// -----

// A fourth result that is no gradient.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{result 3 of @forward is neither the loss, its sum and count, nor a gradient (nn.gradient_of), nor a buffer's new value (nn.state)}}
func.func @forward(%w: tensor<4xf32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>) {
  %1 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1, %1, %1, %w : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
}

// -----

// A gradient of another type, and one of a state that is no parameter.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{'nn.gradient_of' must name a parameter of the value's type}}
func.func @forward(%w: tensor<4xf32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32> {nn.gradient_of = @w}) {
  %1 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1, %1, %1, %1 : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

nn.state @b role = buffer type = tensor<f32>
// expected-error@+1 {{'nn.gradient_of' must name a parameter of the value's type}}
func.func @forward(%b: tensor<f32> {nn.state = @b}) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32> {nn.gradient_of = @b}) {
  return %b, %b, %b, %b : tensor<f32>, tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// A running statistic that no state holds.
nn.state @w role = param type = tensor<f32>
func.func @forward(%x: tensor<f32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<f32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  // expected-error@+1 {{needs a buffer of the model as its running statistic}}
  %s = nn.running_statistic %w, %x momentum = 0.25 factor = 2.0 : tensor<f32>
  return %s, %s, %x : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// A parameter is no running statistic.
nn.state @w role = param type = tensor<f32>
func.func @forward(%x: tensor<f32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<f32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  // expected-error@+1 {{needs a buffer of the model as its running statistic}}
  %s = nn.running_statistic %x, %w momentum = 0.25 factor = 2.0 : tensor<f32>
  %t = nn.mul %s, %w : tensor<f32>
  return %t, %t, %x : tensor<f32>, tensor<f32>, tensor<f32>
}

// -----

// A new value of a parameter, and two of a buffer.
nn.state @w role = param type = tensor<4xf32>
// expected-error@+1 {{@forward returns a new value of @w, which is no buffer of that type}}
func.func @forward(%w: tensor<4xf32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.state = @w}) {
  %1 = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  return %1, %1, %1, %w : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>
}
