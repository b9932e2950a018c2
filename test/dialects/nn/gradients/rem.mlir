// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element of both operands, in f64. The quotient is constant near these values.
func.func @rem(%a: tensor<2x3xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %seven = nn.constant dense<7.0> : tensor<2x3xf64>
  %x = nn.add %a, %seven : tensor<2x3xf64>
  %small = nn.constant dense<0.01> : tensor<2x3xf64>
  %two = nn.constant dense<2.7> : tensor<2x3xf64>
  %c = nn.mul %b, %small : tensor<2x3xf64>
  %d = nn.add %c, %two : tensor<2x3xf64>
  %y = nn.rem %x, %d : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @rem argument 0: 6 elements
// CHECK: @rem argument 1: 6 elements
