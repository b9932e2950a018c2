// RUN: shale-opt %s | shale-opt | FileCheck %s
// 16-bit floats: ops whose operands and results have different element types.

// CHECK: module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>}
module attributes {nn.precision = #nn.precision<param = bf16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
// A state of 16-bit floats whose file holds f32 (state_c2).
// CHECK: nn.state @w role = param type = tensor<8xbf16>
nn.state @w role = param type = tensor<8xbf16> {init = #nn.file<"w", offset = 0, length = 32, transposed = false>}
// CHECK: nn.state @s role = loss_scale type = tensor<f32>
nn.state @s role = loss_scale type = tensor<f32> {init = #nn.fill<65536.0 : f64>}

// CHECK-LABEL: @sums
func.func @sums(%a: tensor<4x8xbf16>, %b: tensor<8x2xbf16>, %i: tensor<3xi64>, %g: tensor<3x8xf16>) {
  // CHECK: nn.matmul {{.*}} -> tensor<4x2xf32>
  %0 = nn.matmul %a, %b : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xf32>
  // CHECK: nn.matmul {{.*}} -> tensor<4x2xbf16>
  %1 = nn.matmul %a, %b : (tensor<4x8xbf16>, tensor<8x2xbf16>) -> tensor<4x2xbf16>
  // CHECK: nn.reduce sum {{.*}} tensor<4x8xbf16> -> tensor<8xf32>
  %2 = nn.reduce sum %a dims = [0] : tensor<4x8xbf16> -> tensor<8xf32>
  // CHECK: nn.embedding_grad {{.*}} -> tensor<5x8xf32>
  %3 = nn.embedding_grad %i, %g : (tensor<3xi64>, tensor<3x8xf16>) -> tensor<5x8xf32>
  // CHECK: nn.sum_squares {{.*}} : (tensor<4x8xbf16>, tensor<3x8xf16>) -> tensor<f32>
  %4 = nn.sum_squares %a, %g : (tensor<4x8xbf16>, tensor<3x8xf16>) -> tensor<f32>
  return
}

// CHECK-LABEL: @norms
func.func @norms(%x: tensor<4x8xbf16>, %s: tensor<8xbf16>, %f: tensor<8xf32>) {
  // CHECK: nn.layer_norm {{.*}} -> tensor<4xf32>
  %y, %m, %r = nn.layer_norm %x, %f, %f epsilon = 1.0e-5 : tensor<4x8xbf16>, tensor<8xf32> -> tensor<4xf32>
  %dx, %ds, %db = nn.layer_norm_grad %x, %s, %m, %r, %y : tensor<4x8xbf16>, tensor<8xbf16>, tensor<4xf32>
  // CHECK: nn.sum_squares {{.*}} : (tensor<8xf32>) -> tensor<f32>
  %0 = nn.sum_squares %ds : (tensor<8xf32>) -> tensor<f32>
  return
}

// CHECK-LABEL: @loss
func.func @loss(%x: tensor<4x8xbf16>, %l: tensor<4xi64>) {
  %s, %c, %e = nn.cross_entropy %x, %l ignore_index = -100 : tensor<4x8xbf16>, tensor<4xi64>
  // CHECK: nn.abs {{.*}} : tensor<4xf32>
  %0 = nn.abs %e : tensor<4xf32>
  %1 = nn.cross_entropy_grad %x, %l, %e, %s ignore_index = -100 : tensor<4x8xbf16>, tensor<4xi64>
  return
}

// CHECK-LABEL: @update
func.func @update(%p: tensor<8xf32>, %g: tensor<8xbf16>, %m: tensor<8xbf16>, %e: tensor<i1>, %s: tensor<f32>) {
  // CHECK: nn.adamw {{.*}} : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
  %p1, %m1, %v1 = nn.adamw %p, %g, %m, %m enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s : tensor<8xf32> grad tensor<8xbf16> state tensor<8xbf16>, tensor<f32>
  // CHECK: nn.sgd {{.*}} : tensor<8xf32> grad tensor<8xbf16>, tensor<f32>
  %p2, %v2 = nn.sgd %p, %g, %p enable %e scale %s lr %s momentum %s weight_decay %s : tensor<8xf32> grad tensor<8xbf16>, tensor<f32>
  return
}
}
