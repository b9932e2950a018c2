// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// All flags, and batch dimensions.
// CHECK-LABEL: func.func @matmul
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_rhs : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_lhs transpose_rhs : (tensor<4x8xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<2x6x4xf32>, tensor<2x4x8xf32>) -> tensor<2x6x8xf32>
func.func @matmul(%a: tensor<6x4xf32>, %b: tensor<4x8xf32>, %c: tensor<8x4xf32>, %d: tensor<2x6x4xf32>, %e: tensor<2x4x8xf32>) {
  %0 = nn.matmul %a, %b : (tensor<6x4xf32>, tensor<4x8xf32>) -> tensor<6x8xf32>
  %1 = nn.matmul %a, %c transpose_rhs : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  %2 = nn.matmul %b, %a transpose_lhs transpose_rhs : (tensor<4x8xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
  %3 = nn.matmul %d, %e : (tensor<2x6x4xf32>, tensor<2x4x8xf32>) -> tensor<2x6x8xf32>
  return
}
