// RUN: shale-opt %s --shale-widen | FileCheck %s

// Library calls and dedicated kernels read and write 16-bit floats. Other ops compute in f32 between casts.
// CHECK-LABEL: @widen
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[W:.*]]: tensor<8x8xbf16>, %[[I:.*]]: tensor<4xi64>
func.func @widen(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>, %ids: tensor<4xi64>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xbf16>) {
  // CHECK: %[[P:.*]] = nn.matmul %[[X]], %[[W]] {{.*}} -> tensor<4x8xbf16>
  %0 = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  // CHECK-DAG: %[[PF:.*]] = nn.cast %[[P]] {{.*}} -> tensor<4x8xf32>
  // CHECK-DAG: %[[XF:.*]] = nn.cast %[[X]] {{.*}} -> tensor<4x8xf32>
  // CHECK: %[[S:.*]] = nn.add %[[PF]], %[[XF]] {{.*}} : tensor<4x8xf32>
  // CHECK: %[[SH:.*]] = nn.cast %[[S]] {{.*}} -> tensor<4x8xbf16>
  %1 = nn.add %0, %x {nn.phase = #nn.phase<forward>} : tensor<4x8xbf16>
  // CHECK: nn.matmul %[[X]], %[[SH]] transpose_lhs {{.*}} -> tensor<8x8xf32>
  %2 = nn.matmul %x, %1 transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  // CHECK: nn.embedding_grad %[[I]], %[[SH]]
  %3 = nn.embedding_grad %ids, %1 {nn.phase = #nn.phase<backward>} : (tensor<4xi64>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  // Ops that only move elements are not widened.
  // CHECK: nn.transpose %[[X]] {{.*}} : tensor<4x8xbf16> -> tensor<8x4xbf16>
  %4 = nn.transpose %x perm = [1, 0] {nn.phase = #nn.phase<forward>} : tensor<4x8xbf16> -> tensor<8x4xbf16>
  return %0, %1, %2, %3, %4 : tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8x4xbf16>
}

// A matmul whose only reader rounds it is rounded as it is written. If there is another reader or another type, the f32 sum is kept.
// CHECK-LABEL: @rounded
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>
func.func @rounded(%x: tensor<4x8xbf16>, %f: tensor<4x8xf32>) -> (tensor<8x8xbf16>, tensor<8x8xf16>, tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8x8xbf16>) {
  // CHECK-NEXT: %[[A:.*]] = nn.matmul %[[X]], %[[X]] transpose_lhs : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xbf16>
  %0 = nn.matmul %x, %x transpose_lhs : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  %1 = nn.cast %0 : tensor<8x8xf32> -> tensor<8x8xbf16>
  // CHECK-NEXT: nn.matmul {{.*}} -> tensor<8x8xf32>
  // CHECK-NEXT: nn.cast {{.*}} -> tensor<8x8xf16>
  %2 = nn.matmul %x, %x transpose_lhs : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  %3 = nn.cast %2 : tensor<8x8xf32> -> tensor<8x8xf16>
  // CHECK-NEXT: nn.matmul {{.*}} -> tensor<8x8xf32>
  // CHECK-NEXT: nn.cast {{.*}} -> tensor<8x8xbf16>
  %4 = nn.matmul %x, %x transpose_lhs : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  %5 = nn.cast %4 : tensor<8x8xf32> -> tensor<8x8xbf16>
  // CHECK-NEXT: nn.matmul {{.*}} -> tensor<8x8xf32>
  // CHECK-NEXT: nn.cast {{.*}} -> tensor<8x8xbf16>
  %6 = nn.matmul %f, %f transpose_lhs : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %7 = nn.cast %6 : tensor<8x8xf32> -> tensor<8x8xbf16>
  // CHECK-NEXT: return %[[A]]
  return %1, %3, %5, %4, %7 : tensor<8x8xbf16>, tensor<8x8xf16>, tensor<8x8xbf16>, tensor<8x8xf32>, tensor<8x8xbf16>
}

// Optimizer updates read and write 16-bit floats directly.
// CHECK-LABEL: @update
// CHECK-NOT: nn.cast
// CHECK: nn.sgd
func.func @update(%p: tensor<8xbf16>, %e: tensor<i1>, %h: tensor<f32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %0, %1 = nn.sgd %p, %p, %p enable %e scale %h lr %h momentum %h weight_decay %h : tensor<8xbf16>, tensor<f32>
  return %0, %1 : tensor<8xbf16>, tensor<8xbf16>
}

// CHECK-LABEL: @attention
// CHECK-NOT: nn.cast
func.func @attention(%q: tensor<1x2x4x8xbf16>, %l: tensor<1x2x4xf32>) -> tensor<1x2x4x8xbf16> {
  %dq, %dk, %dv = nn.attention_grad %q, %q, %q, %q, %l, %q scale = 0.5 : tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4x8xbf16>, tensor<1x2x4xf32>
  return %dq : tensor<1x2x4x8xbf16>
}
