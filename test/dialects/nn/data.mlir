// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Values without operands.
// CHECK-LABEL: func.func @constants
// CHECK: nn.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK: nn.iota dim = 1 : tensor<4x8xi64>
func.func @constants() {
  %0 = nn.constant dense<1.000000e+00> : tensor<4xf32>
  %1 = nn.iota dim = 1 : tensor<4x8xi64>
  return
}

// The same elements at other places.
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

// Elements by index.
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

// Along dimensions.
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
