// RUN: shale-run --check-gradient %s | FileCheck %s

// Input, scale and bias.
func.func @layer_norm(%x: tensor<2x3x5xf64>, %s: tensor<5xf64>, %b: tensor<5xf64>) -> tensor<2x3x5xf64> {
  %y, %m, %r = nn.layer_norm %x, %s, %b epsilon = 1.000000e-05 : tensor<2x3x5xf64>, tensor<5xf64> -> tensor<2x3xf64>
  return %y : tensor<2x3x5xf64>
}
// CHECK: @layer_norm argument 0: 30 elements
// CHECK: @layer_norm argument 1: 5 elements
// CHECK: @layer_norm argument 2: 5 elements
