// RUN: shale-run --check-gradient %s | FileCheck %s

// Input and scale.
func.func @rms_norm(%x: tensor<2x3x5xf64>, %s: tensor<5xf64>) -> tensor<2x3x5xf64> {
  %y, %r = nn.rms_norm %x, %s epsilon = 1.000000e-05 : tensor<2x3x5xf64>, tensor<5xf64> -> tensor<2x3xf64>
  return %y : tensor<2x3x5xf64>
}
// CHECK: @rms_norm argument 0: 30 elements
// CHECK: @rms_norm argument 1: 5 elements
