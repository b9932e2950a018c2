// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Ops that only move elements.
// CHECK-LABEL: func.func @movement
// CHECK: nn.reshape %{{.*}} : tensor<4x8xf32> -> tensor<32xf32>
// CHECK: nn.transpose %{{.*}} perm = [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
// CHECK: nn.broadcast %{{.*}} dims = [0, 2] : tensor<4x8xf32> -> tensor<4x3x8xf32>
// CHECK: nn.slice %{{.*}} starts = [0, 2] limits = [4, 8] strides = [1, 3] : tensor<4x8xf32> -> tensor<4x2xf32>
// CHECK: nn.pad %{{.*}} low = [0, 1] high = [1, 0] interior = [0, 1] value = -1.000000e+02 : tensor<4x8xf32> -> tensor<5x16xf32>
// CHECK: nn.concat %{{.*}}, %{{.*}} dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
func.func @movement(%x: tensor<4x8xf32>) {
  %0 = nn.reshape %x : tensor<4x8xf32> -> tensor<32xf32>
  %1 = nn.transpose %x perm = [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %2 = nn.broadcast %x dims = [0, 2] : tensor<4x8xf32> -> tensor<4x3x8xf32>
  %3 = nn.slice %x starts = [0, 2] limits = [4, 8] strides = [1, 3] : tensor<4x8xf32> -> tensor<4x2xf32>
  %4 = nn.pad %x low = [0, 1] high = [1, 0] interior = [0, 1] value = -1.000000e+02 : tensor<4x8xf32> -> tensor<5x16xf32>
  %5 = nn.concat %x, %x dim = 0 : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  return
}
