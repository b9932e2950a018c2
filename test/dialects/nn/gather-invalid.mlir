// RUN: shale-opt %s --split-input-file --verify-diagnostics

// gather_c1: no such dimension
func.func @gather_c1(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{dim 2 must be in [0, 2)}}
  %0 = nn.gather %x, %i dim = 2 : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
  return
}

// -----

// gather_c2: the result does not have the gathered shape
func.func @gather_c2(%x: tensor<4x8xf32>, %i: tensor<2xi64>) {
  // expected-error@+1 {{result must be 'tensor<4x2xf32>'}}
  %0 = nn.gather %x, %i dim = 1 : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
  return
}

// -----

// gather_nd_c1: different batch dimensions
func.func @gather_nd_c1(%x: tensor<4x8xf32>, %i: tensor<3x1xi64>) {
  // expected-error@+1 {{the first 1 dimensions of}}
  %0 = nn.gather_nd %x, %i batch_dims = 1 : (tensor<4x8xf32>, tensor<3x1xi64>) -> tensor<3xf32>
  return
}

// -----

// gather_nd_c2: index tuples longer than the rank
func.func @gather_nd_c2(%x: tensor<4x8xf32>, %i: tensor<3x3xi64>) {
  // expected-error@+1 {{index tuples of 3 are longer than the rank that remains, 2}}
  %0 = nn.gather_nd %x, %i batch_dims = 0 : (tensor<4x8xf32>, tensor<3x3xi64>) -> tensor<3xf32>
  return
}

// -----

// gather_nd_c3: the result does not have the gathered shape
func.func @gather_nd_c3(%x: tensor<4x8xf32>, %i: tensor<3x2xi64>) {
  // expected-error@+1 {{result must be 'tensor<3xf32>'}}
  %0 = nn.gather_nd %x, %i batch_dims = 0 : (tensor<4x8xf32>, tensor<3x2xi64>) -> tensor<4xf32>
  return
}

// -----

// gather_nd_grad_c1: the gradient does not have the gathered shape
func.func @gather_nd_grad_c1(%i: tensor<4x1xi64>, %g: tensor<4x2xf32>) {
  // expected-error@+1 {{grad must have the type of an nn.gather_nd of the result, 'tensor<4xf32>'; got 'tensor<4x2xf32>'}}
  %0 = nn.gather_nd_grad %i, %g batch_dims = 1 : (tensor<4x1xi64>, tensor<4x2xf32>) -> tensor<4x9xf32>
  return
}

// -----

// gather_nd_grad_c1_element: gradient and result of different element types
func.func @gather_nd_grad_c1_element(%i: tensor<4x1xi64>, %g: tensor<4xf32>) {
  // expected-error@+1 {{grad must have the type of an nn.gather_nd of the result, 'tensor<4xbf16>'; got 'tensor<4xf32>'}}
  %0 = nn.gather_nd_grad %i, %g batch_dims = 1 : (tensor<4x1xi64>, tensor<4xf32>) -> tensor<4x9xbf16>
  return
}

// -----

// gather_nd_grad_c1_batch: different batch dimensions
func.func @gather_nd_grad_c1_batch(%i: tensor<4x1xi64>, %g: tensor<4xf32>) {
  // expected-error@+1 {{the first 1 dimensions of}}
  %0 = nn.gather_nd_grad %i, %g batch_dims = 1 : (tensor<4x1xi64>, tensor<4xf32>) -> tensor<5x9xf32>
  return
}
