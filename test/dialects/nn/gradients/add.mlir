// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element of both operands, in f64.
func.func @add(%a: tensor<2x3xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.add %a, %b : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// Both operands are the same value: its gradient is the sum of the two gradients.
func.func @add_same(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.add %a, %a : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @add argument 0: 6 elements
// CHECK: @add argument 1: 6 elements
// CHECK: @add_same argument 0: 6 elements
