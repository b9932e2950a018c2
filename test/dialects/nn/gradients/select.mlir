// RUN: shale-run --check-gradient %s | FileCheck %s

// The condition has no gradient.
func.func @select(%c: tensor<2x3xi1>, %a: tensor<2x3xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.select %c, %a, %b : tensor<2x3xi1>, tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @select argument 1: 6 elements
// CHECK: @select argument 2: 6 elements
