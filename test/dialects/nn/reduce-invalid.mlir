// RUN: shale-opt %s --split-input-file --verify-diagnostics

// cumsum_c1: no such dimension
func.func @cumsum_c1(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{dim 2 must be in [0, 2)}}
  %0 = nn.cumsum %x dim = 2 : tensor<4x8xf32>
  return
}

// -----

// reduce_c1: dimensions that do not increase
func.func @reduce_c1(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{dims must be strictly increasing dimensions}}
  %0 = nn.reduce sum %x dims = [1, 0] : tensor<4x8xf32> -> tensor<f32>
  return
}

// -----

// reduce_c1_range: a dimension that the operand does not have
func.func @reduce_c1_range(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{dims must be strictly increasing dimensions}}
  %0 = nn.reduce sum %x dims = [-1] : tensor<4x8xf32> -> tensor<4xf32>
  return
}

// -----

// reduce_c2: the result does not have the remaining dimensions
func.func @reduce_c2(%x: tensor<4x8xf32>) {
  // expected-error@+1 {{result must be 'tensor<4xf32>'}}
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<8xf32>
  return
}
