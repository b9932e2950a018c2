// RUN: shale-run --check-gradient %s | FileCheck %s

// The argument is positive: x^2 + 1/2.
func.func @sqrt(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %h = nn.constant dense<0.5> : tensor<2x3xf64>
  %s = nn.mul %x, %x : tensor<2x3xf64>
  %p = nn.add %s, %h : tensor<2x3xf64>
  %y = nn.sqrt %p : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @sqrt argument 0: 6 elements
