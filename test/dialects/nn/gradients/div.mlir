// RUN: shale-run --check-gradient %s | FileCheck %s

// The gradient for a positive divisor.
func.func @div(%a: tensor<2x3xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %h = nn.constant dense<0.5> : tensor<2x3xf64>
  %s = nn.mul %b, %b : tensor<2x3xf64>
  %p = nn.add %s, %h : tensor<2x3xf64>
  %y = nn.div %a, %p : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @div argument 0: 6 elements
// CHECK: @div argument 1: 6 elements
