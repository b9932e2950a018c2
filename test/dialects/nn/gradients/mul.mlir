// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element of both operands, in f64.
func.func @mul(%a: tensor<2x3xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.mul %a, %b : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// Both operands are the same value: its gradient is the sum of the two gradients.
func.func @mul_same(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.mul %a, %a : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @mul argument 0: 6 elements
// CHECK: @mul argument 1: 6 elements
// CHECK: @mul_same argument 0: 6 elements
