// RUN: shale-opt %s --split-input-file --verify-diagnostics

// constant_c1: the result has another type than the value
func.func @constant_c1() {
  // expected-error@+1 {{failed to verify that all of {value, result} have same type}}
  %0 = "nn.constant"() <{value = dense<1.0> : tensor<4xf32>}> : () -> tensor<5xf32>
  return
}

// -----

// iota_c1: no such dimension
func.func @iota_c1() {
  // expected-error@+1 {{dim 2 must be in [0, 2)}}
  %0 = nn.iota dim = 2 : tensor<4x8xi64>
  return
}
