// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Norms over the last dimension.
// CHECK-LABEL: func.func @softmax
// CHECK: nn.softmax %{{.*}} : tensor<4x8xf32>
func.func @softmax(%x: tensor<4x8xf32>) {
  %0 = nn.softmax %x : tensor<4x8xf32>
  return
}

// Norms that also return the statistics for the gradient.
// CHECK-LABEL: func.func @norms
// CHECK: nn.layer_norm %{{.*}}, %{{.*}}, %{{.*}} epsilon = 1.000000e-05 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
// CHECK: nn.layer_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
// CHECK: nn.rms_norm %{{.*}}, %{{.*}} epsilon = 1.000000e-05 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
// CHECK: nn.rms_norm_grad %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
func.func @norms(%x: tensor<4x8xf32>, %s: tensor<8xf32>) {
  %y, %m, %r = nn.layer_norm %x, %s, %s epsilon = 1.000000e-05 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  %dx, %ds, %db = nn.layer_norm_grad %x, %s, %m, %r, %x : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
  %z, %q = nn.rms_norm %x, %s epsilon = 1.000000e-05 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  %dz, %dt = nn.rms_norm_grad %x, %s, %q, %x : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
  return
}

// A statistic of the batch.
// CHECK-LABEL: func.func @statistic
// CHECK: nn.running_statistic %{{.*}}, %{{.*}} momentum = 1.000000e-01 factor = 1.250000e+00 : tensor<4xf32>
func.func @statistic(%b: tensor<4xf32>, %r: tensor<4xf32>) {
  %0 = nn.running_statistic %b, %r momentum = 1.000000e-01 factor = 1.250000e+00 : tensor<4xf32>
  return
}
