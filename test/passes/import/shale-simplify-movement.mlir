// RUN: shale-opt --shale-simplify-movement %s | FileCheck %s

// CHECK-LABEL: func.func @through_reshape
// CHECK: %[[T:.*]] = nn.transpose %{{.*}} perm = [0, 1, 3, 2] : tensor<2x3x5x7xf32> -> tensor<2x3x7x5xf32>
// CHECK: return %[[T]]
func.func @through_reshape(%x: tensor<2x3x5x7xf32>) -> tensor<2x3x7x5xf32> {
  %0 = nn.reshape %x : tensor<2x3x5x7xf32> -> tensor<6x5x7xf32>
  %1 = nn.transpose %0 perm = [0, 2, 1] : tensor<6x5x7xf32> -> tensor<6x7x5xf32>
  %2 = nn.reshape %1 : tensor<6x7x5xf32> -> tensor<2x3x7x5xf32>
  return %2 : tensor<2x3x7x5xf32>
}

// The second reshape merges transposed dimensions, so nothing is simplified.
// CHECK-LABEL: func.func @merges_turned
// CHECK: nn.reshape
// CHECK: nn.transpose
// CHECK: nn.reshape
func.func @merges_turned(%x: tensor<2x3x5x7xf32>) -> tensor<2x3x35xf32> {
  %0 = nn.reshape %x : tensor<2x3x5x7xf32> -> tensor<6x5x7xf32>
  %1 = nn.transpose %0 perm = [0, 2, 1] : tensor<6x5x7xf32> -> tensor<6x7x5xf32>
  %2 = nn.reshape %1 : tensor<6x7x5xf32> -> tensor<2x3x35xf32>
  return %2 : tensor<2x3x35xf32>
}

// CHECK-LABEL: func.func @matmul
// CHECK: nn.matmul %arg0, %arg1 transpose_rhs
func.func @matmul(%x: tensor<2x5x7xf32>, %y: tensor<2x4x7xf32>) -> tensor<2x5x4xf32> {
  %0 = nn.transpose %y perm = [0, 2, 1] : tensor<2x4x7xf32> -> tensor<2x7x4xf32>
  %1 = nn.matmul %x, %0 : (tensor<2x5x7xf32>, tensor<2x7x4xf32>) -> tensor<2x5x4xf32>
  return %1 : tensor<2x5x4xf32>
}

// Not a swap of the last two dimensions.
// CHECK-LABEL: func.func @other_transpose
// CHECK: nn.transpose
func.func @other_transpose(%x: tensor<2x5x7xf32>, %y: tensor<7x2x4xf32>) -> tensor<2x5x4xf32> {
  %0 = nn.transpose %y perm = [1, 0, 2] : tensor<7x2x4xf32> -> tensor<2x7x4xf32>
  %1 = nn.matmul %x, %0 : (tensor<2x5x7xf32>, tensor<2x7x4xf32>) -> tensor<2x5x4xf32>
  return %1 : tensor<2x5x4xf32>
}

// CHECK-LABEL: func.func @back
// CHECK-NEXT: return %arg0
func.func @back(%x: tensor<2x5x7xf32>) -> tensor<2x5x7xf32> {
  %0 = nn.transpose %x perm = [1, 2, 0] : tensor<2x5x7xf32> -> tensor<5x7x2xf32>
  %1 = nn.transpose %0 perm = [2, 0, 1] : tensor<5x7x2xf32> -> tensor<2x5x7xf32>
  return %1 : tensor<2x5x7xf32>
}
