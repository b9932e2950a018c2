// RUN: shale-opt %s --shale-decompose | FileCheck %s
// RUN: shale-opt %s --shale-decompose=all | FileCheck %s --check-prefix=ALL

// CHECK-LABEL: @norm
// CHECK-NOT: nn.layer_norm
// CHECK: nn.reduce sum %{{.*}} dims = [1]
// CHECK: nn.sqrt
func.func @norm(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %y, %m, %r = nn.layer_norm %x, %w, %b epsilon = 1.000000e-05 : tensor<4x8xf32>, tensor<8xf32> -> tensor<4xf32>
  return %y : tensor<4x8xf32>
}

// Unused results are not computed: there is no gradient of the scale here.
// CHECK-LABEL: @norm_grad
// CHECK-NOT: -> tensor<8xf32>
// CHECK: return
func.func @norm_grad(%x: tensor<4x8xf32>, %w: tensor<8xf32>, %m: tensor<4xf32>, %r: tensor<4xf32>, %dy: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %dx, %dw, %db = nn.layer_norm_grad %x, %w, %m, %r, %dy : tensor<4x8xf32>, tensor<8xf32>, tensor<4xf32>
  return %dx : tensor<4x8xf32>
}

// Attention has a dedicated kernel.
// CHECK-LABEL: @attention
// CHECK: nn.attention
// ALL-LABEL: @attention
// ALL-NOT: nn.attention
// ALL: nn.matmul
// ALL: nn.exp
// ALL: nn.matmul
func.func @attention(%q: tensor<1x2x4x8xf32>, %k: tensor<1x1x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %o, %l = nn.attention %q, %k, %k causal scale = 5.000000e-01 : tensor<1x2x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32> -> tensor<1x2x4x8xf32>, tensor<1x2x4xf32>
  return %o : tensor<1x2x4x8xf32>
}

// The label to ignore is exact, and ignores nothing where labels cannot have it.
// CHECK-LABEL: @ignored
// CHECK: nn.constant dense<9223372036854775807> : tensor<4xi64>
// CHECK: nn.constant dense<true> : tensor<4xi1>
func.func @ignored(%x: tensor<4x8xf32>, %long: tensor<4xi64>, %short: tensor<4xi32>) -> (tensor<f32>, tensor<f32>) {
  %s, %c, %l = nn.cross_entropy %x, %long ignore_index = 9223372036854775807 : tensor<4x8xf32>, tensor<4xi64>
  %t, %d, %m = nn.cross_entropy %x, %short ignore_index = 4294967296 : tensor<4x8xf32>, tensor<4xi32>
  return %s, %t : tensor<f32>, tensor<f32>
}
