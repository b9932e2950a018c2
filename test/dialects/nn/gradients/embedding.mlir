// RUN: shale-run --check-gradient %s | FileCheck %s

// Some rows are read more than once.
func.func @embedding(%t: tensor<5x3xf64>, %i: tensor<2x4xi64>) -> tensor<2x4x3xf64> {
  %0 = nn.embedding %t, %i : (tensor<5x3xf64>, tensor<2x4xi64>) -> tensor<2x4x3xf64>
  return %0 : tensor<2x4x3xf64>
}
// An index out of range reads zeros, and its gradient is not added to any row.
func.func @out_of_range(%t: tensor<5x3xf64>) -> tensor<4x3xf64> {
  %i = nn.constant dense<[1, 5, -1, 1]> : tensor<4xi64>
  %0 = nn.embedding %t, %i : (tensor<5x3xf64>, tensor<4xi64>) -> tensor<4x3xf64>
  return %0 : tensor<4x3xf64>
}
// CHECK: @embedding argument 0: 15 elements
// CHECK: @out_of_range argument 0: 15 elements
