// RUN: shale-opt %s --split-input-file --verify-diagnostics

// add_types: one type for all
func.func @add_types(%a: tensor<4xf32>, %b: tensor<8xf32>) {
  // expected-error@+1 {{requires the same type for all operands and results}}
  %0 = "nn.add"(%a, %b) : (tensor<4xf32>, tensor<8xf32>) -> tensor<4xf32>
  return
}

// -----

// exp_integer: functions of floats only
func.func @exp_integer(%a: tensor<4xi64>) {
  // expected-error@+1 {{must be statically shaped tensor of}}
  %0 = nn.exp %a : tensor<4xi64>
  return
}

// -----

// and_float: truth values only
func.func @and_float(%a: tensor<4xf32>) {
  // expected-error@+1 {{must be statically shaped tensor of 1-bit signless integer}}
  %0 = nn.and %a, %a : tensor<4xf32>
  return
}

// -----

// add_dynamic: static shapes only
func.func @add_dynamic(%a: tensor<?xf32>) {
  // expected-error@+1 {{must be statically shaped tensor of}}
  %0 = nn.add %a, %a : tensor<?xf32>
  return
}
