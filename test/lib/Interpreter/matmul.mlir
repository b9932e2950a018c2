// RUN: shale-run %s | FileCheck %s

// All four read the same matrices, so all give the same matmul.
// CHECK-LABEL: @flags
// CHECK: result0: 2x2xf32 {{.*}} [4, 5, 10, 11]
// CHECK: result1: 2x2xf32 {{.*}} [4, 5, 10, 11]
// CHECK: result2: 2x2xf32 {{.*}} [4, 5, 10, 11]
// CHECK: result3: 2x2xf32 {{.*}} [4, 5, 10, 11]
func.func @flags() -> (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>) {
  %a = nn.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %at = nn.constant dense<[[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]]> : tensor<3x2xf32>
  %b = nn.constant dense<[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]> : tensor<3x2xf32>
  %bt = nn.constant dense<[[1.0, 0.0, 1.0], [0.0, 1.0, 1.0]]> : tensor<2x3xf32>
  %0 = nn.matmul %a, %b : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %1 = nn.matmul %at, %b transpose_lhs : (tensor<3x2xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
  %2 = nn.matmul %a, %bt transpose_rhs : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  %3 = nn.matmul %at, %bt transpose_lhs transpose_rhs : (tensor<3x2xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>
  return %0, %1, %2, %3 : tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2x2xf32>
}

// Matmuls accumulate wider than their type: 256 ones are lost one by one in bf16.
// CHECK-LABEL: @batches
// CHECK: result0: 2x1x1xf32 {{.*}} [3, 14]
// CHECK: result1: 1x1xbf16 {{.*}} [512]
func.func @batches() -> (tensor<2x1x1xf32>, tensor<1x1xbf16>) {
  %a = nn.constant dense<[[[1.0, 1.0]], [[2.0, 2.0]]]> : tensor<2x1x2xf32>
  %b = nn.constant dense<[[[1.0], [2.0]], [[3.0], [4.0]]]> : tensor<2x2x1xf32>
  %0 = nn.matmul %a, %b : (tensor<2x1x2xf32>, tensor<2x2x1xf32>) -> tensor<2x1x1xf32>
  %c = nn.constant dense<1.0> : tensor<1x512xbf16>
  %1 = nn.matmul %c, %c transpose_rhs : (tensor<1x512xbf16>, tensor<1x512xbf16>) -> tensor<1x1xbf16>
  return %0, %1 : tensor<2x1x1xf32>, tensor<1x1xbf16>
}
