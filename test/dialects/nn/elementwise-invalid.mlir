// RUN: shale-opt %s --split-input-file --verify-diagnostics

// add_types: operands of different types
func.func @add_types(%a: tensor<4xf32>, %b: tensor<8xf32>) {
  // expected-error@+1 {{requires the same type for all operands and results}}
  %0 = "nn.add"(%a, %b) : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

// exp_integer: a function of floats on integers
func.func @exp_integer(%a: tensor<4xi64>) {
  // expected-error@+1 {{must be statically shaped tensor of}}
  %0 = nn.exp %a : tensor<4xi64>
  return
}

// -----

// and_float: a function of truth values on floats
func.func @and_float(%a: tensor<4xf32>) {
  // expected-error@+1 {{must be statically shaped tensor of 1-bit signless integer}}
  %0 = nn.and %a, %a : tensor<4xf32>
  return
}

// -----

// add_dynamic: a dynamic shape
func.func @add_dynamic(%a: tensor<?xf32>) {
  // expected-error@+1 {{must be statically shaped tensor of}}
  %0 = nn.add %a, %a : tensor<?xf32>
  return
}
