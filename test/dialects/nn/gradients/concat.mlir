// RUN: shale-run --check-gradient %s | FileCheck %s

// Operands of different sizes.
func.func @concat(%a: tensor<2x3xf64>, %b: tensor<2x1xf64>, %c: tensor<2x2xf64>) -> tensor<2x6xf64> {
  %0 = nn.concat %a, %b, %c dim = 1 : (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x2xf64>) -> tensor<2x6xf64>
  return %0 : tensor<2x6xf64>
}
// CHECK: @concat argument 0: 6 elements
// CHECK: @concat argument 1: 2 elements
// CHECK: @concat argument 2: 4 elements
