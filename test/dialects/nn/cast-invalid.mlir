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

// -----

// bitcast_c1: two integers
func.func @bitcast_c1(%a: tensor<4xi32>) {
  // expected-error@+1 {{needs f32 and i32, not 'i32' twice}}
  %0 = nn.bitcast %a : tensor<4xi32> -> tensor<4xi32>
  return
}

// -----

// bitcast_element: 64 bits
func.func @bitcast_element(%a: tensor<4xf64>) {
  // expected-error@+1 {{must be statically shaped tensor of 32-bit float or 32-bit signless integer}}
  %0 = nn.bitcast %a : tensor<4xf64> -> tensor<4xi32>
  return
}

// -----

// bitcast_shape: operand and result have different shapes
func.func @bitcast_shape(%a: tensor<4xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %0 = nn.bitcast %a : tensor<4xf32> -> tensor<5xi32>
  return
}
