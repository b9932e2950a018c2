// RUN: shale-opt --shale-recover-norm %s | FileCheck %s

// CHECK-LABEL: func.func @rms
// CHECK: %[[Y:.*]], %{{.*}} = nn.rms_norm %arg0, %arg1 epsilon = 9.99{{.*}}E-6 {nn.scope = "n1"} : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
// CHECK: return %[[Y]]
func.func @rms(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %n = nn.constant dense<8.0> : tensor<4x1xf32>
  %e = nn.constant dense<1.0e-5> : tensor<4x1xf32>
  %one = nn.constant dense<1.0> : tensor<4x1xf32>
  %0 = nn.mul %x, %x : tensor<4x8xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = nn.reshape %1 : tensor<4xf32> -> tensor<4x1xf32>
  %3 = nn.div %2, %n : tensor<4x1xf32>
  %4 = nn.add %3, %e : tensor<4x1xf32>
  %5 = nn.sqrt %4 : tensor<4x1xf32>
  %6 = nn.div %one, %5 : tensor<4x1xf32>
  %7 = nn.broadcast %6 dims = [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
  %8 = nn.mul %x, %7 : tensor<4x8xf32>
  %9 = nn.broadcast %w dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %10 = nn.mul %9, %8 {nn.scope = "n1"} : tensor<4x8xf32>
  return %10 : tensor<4x8xf32>
}

// The sum is divided by another number, so it is not a mean.
// CHECK-LABEL: func.func @not_mean
// CHECK-NOT: nn.rms_norm
func.func @not_mean(%x: tensor<4x8xf32>, %w: tensor<8xf32>) -> tensor<4x8xf32> {
  %n = nn.constant dense<7.0> : tensor<4x1xf32>
  %e = nn.constant dense<1.0e-5> : tensor<4x1xf32>
  %0 = nn.mul %x, %x : tensor<4x8xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = nn.reshape %1 : tensor<4xf32> -> tensor<4x1xf32>
  %3 = nn.div %2, %n : tensor<4x1xf32>
  %4 = nn.add %3, %e : tensor<4x1xf32>
  %5 = nn.rsqrt %4 : tensor<4x1xf32>
  %6 = nn.broadcast %5 dims = [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
  %7 = nn.mul %x, %6 : tensor<4x8xf32>
  %8 = nn.broadcast %w dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %9 = nn.mul %7, %8 : tensor<4x8xf32>
  return %9 : tensor<4x8xf32>
}

// Written as a quotient, with the centred operand twice.
// CHECK-LABEL: func.func @layer
// CHECK: nn.layer_norm %arg0, %arg1, %arg2 epsilon = 9.99{{.*}}E-6 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
func.func @layer(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %n = nn.constant dense<8.0> : tensor<4x1xf32>
  %e = nn.constant dense<1.0e-5> : tensor<4x1xf32>
  %0 = nn.reduce sum %x dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %1 = nn.reshape %0 : tensor<4xf32> -> tensor<4x1xf32>
  %2 = nn.div %1, %n : tensor<4x1xf32>
  %3 = nn.broadcast %2 dims = [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
  %4 = nn.sub %x, %3 : tensor<4x8xf32>
  %5 = nn.mul %4, %4 : tensor<4x8xf32>
  %6 = nn.reduce sum %5 dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %7 = nn.reshape %6 : tensor<4xf32> -> tensor<4x1xf32>
  %8 = nn.div %7, %n : tensor<4x1xf32>
  %9 = nn.add %8, %e : tensor<4x1xf32>
  %10 = nn.sqrt %9 : tensor<4x1xf32>
  %11 = nn.broadcast %10 dims = [0, 1] : tensor<4x1xf32> -> tensor<4x8xf32>
  %12 = nn.div %4, %11 : tensor<4x8xf32>
  %13 = nn.broadcast %w dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %14 = nn.mul %12, %13 : tensor<4x8xf32>
  %15 = nn.broadcast %b dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %16 = nn.add %14, %15 : tensor<4x8xf32>
  return %16 : tensor<4x8xf32>
}
