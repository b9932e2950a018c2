// RUN: shale-opt %s --split-input-file --verify-diagnostics

// compare_shape: operands of different shapes
func.func @compare_shape(%a: tensor<4xf32>) {
  // expected-error@+1 {{requires the same shape for all operands and results}}
  %0 = nn.compare lt %a, %a : tensor<4xf32> -> tensor<5xi1>
  return
}
