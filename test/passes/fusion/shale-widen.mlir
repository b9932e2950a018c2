// RUN: shale-opt %s --shale-widen | FileCheck %s

// Products and norms compute wide; one widened operand a phase; each half result is rounded once.
// CHECK-LABEL: @widen
// CHECK-SAME: %[[X:.*]]: tensor<4x8xbf16>, %[[W:.*]]: tensor<8x8xbf16>
func.func @widen(%x: tensor<4x8xbf16>, %w: tensor<8x8xbf16>) -> (tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x4xbf16>) {
  // CHECK: %[[XF:.*]] = nn.cast %[[X]] {{.*}} -> tensor<4x8xf32>
  // CHECK: %[[WF:.*]] = nn.cast %[[W]] {{.*}} -> tensor<8x8xf32>
  // CHECK: %[[P:.*]] = nn.matmul %[[XF]], %[[WF]] {{.*}} -> tensor<4x8xf32>
  // CHECK: %[[PH:.*]] = nn.cast %[[P]] {{.*}} -> tensor<4x8xbf16>
  %0 = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xbf16>, tensor<8x8xbf16>) -> tensor<4x8xbf16>
  // CHECK-DAG: %[[PF:.*]] = nn.cast %[[PH]] {{.*}} -> tensor<4x8xf32>
  // CHECK-DAG: %[[XG:.*]] = nn.cast %[[X]] {{.*}} -> tensor<4x8xf32>
  // CHECK: nn.add %[[PF]], %[[XG]] {{.*}} : tensor<4x8xf32>
  %1 = nn.add %0, %x {nn.phase = #nn.phase<forward>} : tensor<4x8xbf16>
  // What backward needs wide is widened again.
  // CHECK: %[[XB:.*]] = nn.cast %[[X]] {{.*}}backward{{.*}} -> tensor<4x8xf32>
  // CHECK: nn.matmul %[[XB]], {{.*}} -> tensor<8x8xf32>
  // CHECK-NOT: -> tensor<8x8xbf16>
  %2 = nn.matmul %x, %1 transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xbf16>, tensor<4x8xbf16>) -> tensor<8x8xf32>
  // Moving elements needs no width.
  // CHECK: nn.transpose %[[X]] {{.*}} : tensor<4x8xbf16> -> tensor<8x4xbf16>
  %3 = nn.transpose %x perm = [1, 0] {nn.phase = #nn.phase<forward>} : tensor<4x8xbf16> -> tensor<8x4xbf16>
  return %0, %1, %2, %3 : tensor<4x8xbf16>, tensor<4x8xbf16>, tensor<8x8xf32>, tensor<8x4xbf16>
}

// Updates read and write half types themselves.
// CHECK-LABEL: @update
// CHECK-NOT: nn.cast
// CHECK: nn.sgd
func.func @update(%p: tensor<8xbf16>, %e: tensor<i1>, %h: tensor<f32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %0, %1 = nn.sgd %p, %p, %p enable %e scale %h lr %h momentum %h weight_decay %h decay = 1.0 : tensor<8xbf16>, tensor<f32>
  return %0, %1 : tensor<8xbf16>, tensor<8xbf16>
}
