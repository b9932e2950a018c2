// RUN: shale-run --check-gradient %s | FileCheck %s

// The base is positive. Other bases are in test/models/special.
func.func @pow(%a: tensor<2x3xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %h = nn.constant dense<0.5> : tensor<2x3xf64>
  %s = nn.mul %a, %a : tensor<2x3xf64>
  %p = nn.add %s, %h : tensor<2x3xf64>
  %y = nn.pow %p, %b : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @pow argument 0: 6 elements
// CHECK: @pow argument 1: 6 elements
