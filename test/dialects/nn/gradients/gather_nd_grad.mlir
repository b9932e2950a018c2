// RUN: shale-run --check-gradient %s | FileCheck %s

// Some elements get several sums; one tuple is out of range and adds nothing.
func.func @tuples(%x: tensor<5xf64>) -> tensor<3x4xf64> {
  %i = nn.constant dense<[[0, 1], [2, 3], [0, 1], [1, -1], [0, 1]]> : tensor<5x2xi64>
  %0 = nn.gather_nd_grad %i, %x batch_dims = 0 : (tensor<5x2xi64>, tensor<5xf64>) -> tensor<3x4xf64>
  return %0 : tensor<3x4xf64>
}
// Each index is that of a slice, two per batch row.
func.func @batched(%x: tensor<2x2x4xf64>) -> tensor<2x3x4xf64> {
  %i = nn.constant dense<[[[2], [2]], [[0], [1]]]> : tensor<2x2x1xi64>
  %0 = nn.gather_nd_grad %i, %x batch_dims = 1 : (tensor<2x2x1xi64>, tensor<2x2x4xf64>) -> tensor<2x3x4xf64>
  return %0 : tensor<2x3x4xf64>
}
// CHECK: @tuples argument 0: 5 elements
// CHECK: @batched argument 0: 16 elements
