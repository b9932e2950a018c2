// RUN: shale-run --check-gradient %s | FileCheck %s

// A new dimension, a repeated dimension of size 1, a scalar, and a dimension of size 1 that is kept.
func.func @broadcast(%a: tensor<3xf64>, %b: tensor<2x1x3xf64>, %s: tensor<f64>, %o: tensor<1xf64>) -> (tensor<2x3xf64>, tensor<2x2x4x3xf64>, tensor<2x2xf64>, tensor<1x2xf64>) {
  %0 = nn.broadcast %a dims = [1] : tensor<3xf64> -> tensor<2x3xf64>
  %1 = nn.broadcast %b dims = [0, 2, 3] : tensor<2x1x3xf64> -> tensor<2x2x4x3xf64>
  %2 = nn.broadcast %s dims = [] : tensor<f64> -> tensor<2x2xf64>
  %3 = nn.broadcast %o dims = [0] : tensor<1xf64> -> tensor<1x2xf64>
  return %0, %1, %2, %3 : tensor<2x3xf64>, tensor<2x2x4x3xf64>, tensor<2x2xf64>, tensor<1x2xf64>
}
// CHECK: @broadcast argument 0: 3 elements
// CHECK: @broadcast argument 1: 6 elements
// CHECK: @broadcast argument 2: 1 elements
// CHECK: @broadcast argument 3: 1 elements
