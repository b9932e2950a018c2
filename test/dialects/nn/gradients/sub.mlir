// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element of both operands, in f64.
func.func @sub(%a: tensor<2x3xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.sub %a, %b : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// Both operands are the same value: its gradient is the sum of the two gradients.
func.func @sub_same(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.sub %a, %a : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @sub argument 0: 6 elements
// CHECK: @sub argument 1: 6 elements
// CHECK: @sub_same argument 0: 6 elements
