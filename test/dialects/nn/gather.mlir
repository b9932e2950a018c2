// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Gathers by index, and their gradients.
// CHECK-LABEL: func.func @indexed
// CHECK: nn.gather %{{.*}}, %{{.*}} dim = 0 : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
// CHECK: nn.gather_nd %{{.*}}, %{{.*}} batch_dims = 0 : (tensor<4x8xf32>, tensor<5x2xi64>) -> tensor<5xf32>
// CHECK: nn.gather_nd_grad %{{.*}}, %{{.*}} batch_dims = 0 : (tensor<5x2xi64>, tensor<5xf32>) -> tensor<4x8xf32>
func.func @indexed(%x: tensor<4x8xf32>, %i: tensor<2xi64>, %t: tensor<5x2xi64>) {
  %0 = nn.gather %x, %i dim = 0 : (tensor<4x8xf32>, tensor<2xi64>) -> tensor<2x8xf32>
  %1 = nn.gather_nd %x, %t batch_dims = 0 : (tensor<4x8xf32>, tensor<5x2xi64>) -> tensor<5xf32>
  %2 = nn.gather_nd_grad %t, %1 batch_dims = 0 : (tensor<5x2xi64>, tensor<5xf32>) -> tensor<4x8xf32>
  return
}
