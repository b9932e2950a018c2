// RUN: shale-opt %s --split-input-file --verify-diagnostics

// cast_shape: operand and result have different shapes
func.func @cast_shape(%a: tensor<4xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %0 = nn.cast %a : tensor<4xf32> -> tensor<5xi64>
  return
}

// -----

// cast_element: an element type that nn does not have
func.func @cast_element(%a: tensor<4xi8>) {
  // expected-error@+1 {{must be statically shaped tensor of}}
  %0 = nn.cast %a : tensor<4xi8> -> tensor<4xi64>
  return
}
