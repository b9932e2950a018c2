// RUN: shale-opt %s --split-input-file --verify-diagnostics

// embedding_c1: a table that is not 2-D
func.func @embedding_c1(%t: tensor<256xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{expects a 2-D table [V, D]}}
  %0 = nn.embedding %t, %i : (tensor<256xf32>, tensor<4xi64>) -> tensor<4xf32>
  return
}

// -----

// embedding_c1_shape: not one row per index
func.func @embedding_c1_shape(%t: tensor<256x64xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{rows of shape indices + [D]}}
  %0 = nn.embedding %t, %i : (tensor<256x64xf32>, tensor<4xi64>) -> tensor<5x64xf32>
  return
}

// -----

// embedding_grad_c1: not one row per index
func.func @embedding_grad_c1(%i: tensor<4xi64>, %g: tensor<4x63xf32>) {
  // expected-error@+1 {{rows of shape indices + [D]}}
  %0 = nn.embedding_grad %i, %g : (tensor<4xi64>, tensor<4x63xf32>) -> tensor<256x64xf32>
  return
}

// -----

// embedding_float: indices that are not integers
func.func @embedding_float(%t: tensor<256x64xf32>, %i: tensor<4xf32>) {
  // expected-error@+1 {{operand #1 must be statically shaped tensor of 64-bit signless integer or 32-bit}}
  %0 = nn.embedding %t, %i : (tensor<256x64xf32>, tensor<4xf32>) -> tensor<4x64xf32>
  return
}

// -----

// embedding_c2: the padding index is not a row
func.func @embedding_c2(%t: tensor<256x64xf32>, %i: tensor<4xi64>) {
  // expected-error@+1 {{padding is row 256 of a table of 256 rows}}
  %0 = nn.embedding %t, %i padding = 256 : (tensor<256x64xf32>, tensor<4xi64>) -> tensor<4x64xf32>
  return
}
