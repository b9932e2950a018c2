// RUN: shale-run %s | FileCheck %s

// An index out of range reads zeros, and its gradient is dropped.
// CHECK-LABEL: @embedding
// CHECK: result0: 4x2xf32 {{.*}} [3, 4, 1, 2, 0, 0, 0, 0]
// CHECK: result1: 2x2xf32 {{.*}} [1, 2, 10, 12]
func.func @embedding() -> (tensor<4x2xf32>, tensor<2x2xf32>) {
  %t = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %i = nn.constant dense<[1, 0, 2, -1]> : tensor<4xi64>
  %0 = nn.embedding %t, %i : (tensor<2x2xf32>, tensor<4xi64>) -> tensor<4x2xf32>
  %j = nn.constant dense<[0, 1, 1, 2]> : tensor<4xi64>
  %g = nn.constant dense<[[1.0, 2.0], [3.0, 4.0], [7.0, 8.0], [9.0, 9.0]]> : tensor<4x2xf32>
  %1 = nn.embedding_grad %j, %g : (tensor<4xi64>, tensor<4x2xf32>) -> tensor<2x2xf32>
  return %0, %1 : tensor<4x2xf32>, tensor<2x2xf32>
}
