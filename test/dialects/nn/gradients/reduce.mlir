// RUN: shale-run --check-gradient %s | FileCheck %s

// All kinds of reduction, over dimensions that are not adjacent.
func.func @sum(%a: tensor<2x3x4xf64>) -> tensor<3xf64> {
  %0 = nn.reduce sum %a dims = [0, 2] : tensor<2x3x4xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func @max(%a: tensor<2x3x4xf64>) -> tensor<3xf64> {
  %0 = nn.reduce max %a dims = [0, 2] : tensor<2x3x4xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func @min(%a: tensor<2x3x4xf64>) -> tensor<3xf64> {
  %0 = nn.reduce min %a dims = [0, 2] : tensor<2x3x4xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func @prod(%a: tensor<2x3x4xf64>) -> tensor<3xf64> {
  %0 = nn.reduce prod %a dims = [0, 2] : tensor<2x3x4xf64> -> tensor<3xf64>
  return %0 : tensor<3xf64>
}
// A product with one zero has a gradient only for that element. With two zeros all gradients are zero.
func.func @prod_zero(%a: tensor<2x3xf64>) -> tensor<2xf64> {
  %m = nn.constant dense<[[1.0, 0.0, 1.0], [0.0, 0.0, 1.0]]> : tensor<2x3xf64>
  %0 = nn.mul %a, %m : tensor<2x3xf64>
  %b = nn.constant dense<[[0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]> : tensor<2x3xf64>
  %1 = nn.add %0, %b : tensor<2x3xf64>
  %2 = nn.reduce prod %1 dims = [1] : tensor<2x3xf64> -> tensor<2xf64>
  return %2 : tensor<2xf64>
}
// CHECK: @sum argument 0: 24 elements
// CHECK: @max argument 0: 24 elements
// CHECK: @min argument 0: 24 elements
// CHECK: @prod argument 0: 24 elements
// CHECK: @prod_zero argument 0: 6 elements
