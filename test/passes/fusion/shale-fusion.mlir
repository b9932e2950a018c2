// RUN: shale-opt %s --shale-fusion | FileCheck %s
// RUN: shale-opt %s --shale-fusion=singletons | FileCheck %s --check-prefix=ALONE

// A chain of elementwise ops, its row statistics and the ops that read them are one kernel, in place.
// CHECK-LABEL: @rows
// CHECK: nn.cluster ({{.*}}) -> (tensor<4xf32>, tensor<4x8xf32>) aliases [-1, 0]
// CHECK-NOT: nn.cluster
// CHECK: return
// ALONE-LABEL: @rows
// ALONE-COUNT-4: nn.cluster
func.func @rows(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>) {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<4x8xf32> -> tensor<4xf32>
  %2 = nn.broadcast %1 dims = [0] : tensor<4xf32> -> tensor<4x8xf32>
  %3 = nn.div %0, %2 : tensor<4x8xf32>
  return %3, %1 : tensor<4x8xf32>, tensor<4xf32>
}

// A matmul between two chains keeps them in separate clusters, since one cluster would be a cycle.
// CHECK-LABEL: @detour
// CHECK: nn.cluster
// CHECK: nn.matmul
// CHECK: nn.cluster
// CHECK: return
func.func @detour(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = nn.exp %x : tensor<4x4xf32>
  %1 = nn.matmul %0, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = nn.add %0, %1 : tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// The bias of a matmul is added by the kernels that read slices of the sum.
// CHECK-LABEL: @pieces
// CHECK-COUNT-2: nn.cluster
// CHECK-NOT: nn.cluster
// CHECK: return
func.func @pieces(%x: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = nn.broadcast %b dims = [1] : tensor<8xf32> -> tensor<4x8xf32>
  %1 = nn.add %x, %0 : tensor<4x8xf32>
  %2 = nn.slice %1 starts = [0, 0] limits = [4, 4] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  %3 = nn.slice %1 starts = [0, 4] limits = [4, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<4x4xf32>
  return %2, %3 : tensor<4x4xf32>, tensor<4x4xf32>
}

// Fusion in the backward pass does not make the forward pass store more values.
// CHECK-LABEL: @phases
// CHECK-COUNT-2: nn.cluster
func.func @phases(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = nn.exp %x {nn.phase = #nn.phase<forward>} : tensor<8xf32>
  %1 = nn.neg %0 {nn.phase = #nn.phase<backward>} : tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// Reshapes stay outside of clusters, where they are free. Matmuls and constants stay outside, too.
// CHECK-LABEL: @outside
// CHECK: nn.constant
// CHECK: nn.reshape
// CHECK-NOT: nn.cluster
// CHECK: return
func.func @outside(%x: tensor<4x4xf32>) -> tensor<16xf32> {
  %c = nn.constant dense<[[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 5.0]]> : tensor<4x4xf32>
  %0 = nn.matmul %x, %c : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = nn.reshape %0 : tensor<4x4xf32> -> tensor<16xf32>
  return %1 : tensor<16xf32>
}

// A 16-bit value is stored as it is, and each kernel that reads it widens it. Ops that move elements move 16-bit floats.
// CHECK-LABEL: @floats_of_16_bits
// CHECK: nn.cluster
// CHECK: nn.yield {{.*}} : tensor<4x8xbf16>
// CHECK: nn.sum_squares
// CHECK: nn.cluster (%[[H:.*]] = {{.*}} : tensor<4x8xbf16>
// CHECK: %[[T:.*]] = nn.transpose %[[H]] {{.*}} : tensor<4x8xbf16> -> tensor<8x4xbf16>
// CHECK: %[[W:.*]] = nn.cast %[[T]] : tensor<8x4xbf16> -> tensor<8x4xf32>
// CHECK: nn.tanh %[[W]]
func.func @floats_of_16_bits(%x: tensor<4x8xf32>) -> (tensor<f32>, tensor<8x4xf32>) {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = nn.cast %0 : tensor<4x8xf32> -> tensor<4x8xbf16>
  %2 = nn.cast %1 : tensor<4x8xbf16> -> tensor<4x8xf32>
  %3 = nn.sum_squares %1 : (tensor<4x8xbf16>) -> tensor<f32>
  %4 = nn.transpose %2 perm = [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %5 = nn.tanh %4 : tensor<8x4xf32>
  return %3, %5 : tensor<f32>, tensor<8x4xf32>
}

// %0 is read at the same element and at a shifted one, so the sum must not overwrite %x.
// CHECK-LABEL: @shift
// CHECK: nn.cluster
// CHECK-NOT: aliases
// CHECK: return
func.func @shift(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = nn.slice %0 starts = [0, 0] limits = [3, 8] strides = [1, 1] : tensor<4x8xf32> -> tensor<3x8xf32>
  %2 = nn.pad %1 low = [1, 0] high = [0, 0] interior = [0, 0] value = 0.0 : tensor<3x8xf32> -> tensor<4x8xf32>
  %3 = nn.add %0, %2 : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// CHECK-LABEL: @running
// CHECK: nn.cluster
// CHECK-NOT: aliases
// CHECK: return
func.func @running(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.exp %x : tensor<4x8xf32>
  %1 = nn.cumsum %0 dim = 0 : tensor<4x8xf32>
  %2 = nn.div %1, %0 : tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}
