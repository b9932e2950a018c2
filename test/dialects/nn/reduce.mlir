// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Reductions along dimensions.
// CHECK-LABEL: func.func @sums
// CHECK: nn.cumsum %{{.*}} dim = 1 exclusive reverse : tensor<4x8xf32>
// CHECK: nn.reduce  sum %{{.*}} dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
// CHECK: nn.reduce  max %{{.*}} dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>
func.func @sums(%x: tensor<4x8xf32>) {
  %0 = nn.cumsum %x dim = 1 exclusive reverse : tensor<4x8xf32>
  %1 = nn.reduce  sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = nn.reduce  max %x dims = [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return
}
