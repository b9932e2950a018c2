// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element of both operands, in f64.
func.func @min(%a: tensor<2x3xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.min %a, %b : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// Both operands are the same value: its gradient is the sum of the two gradients.
func.func @min_same(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.min %a, %a : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @min argument 0: 6 elements
// CHECK: @min argument 1: 6 elements
// CHECK: @min_same argument 0: 6 elements
