// RUN: shale-run --check-gradient %s | FileCheck %s

// Padding around and between elements.
func.func @pad(%a: tensor<2x3xf64>) -> tensor<5x6xf64> {
  %0 = nn.pad %a low = [1, 0] high = [0, 1] interior = [2, 1] value = 3.000000e+00 : tensor<2x3xf64> -> tensor<5x6xf64>
  return %0 : tensor<5x6xf64>
}
// CHECK: @pad argument 0: 6 elements
