// A kernel of a GPU stores a matrix and its transpose, which is not read again; it does not if the matrix belongs to rows, or for one reader.
// RUN: shale-opt %s --shale-fusion | FileCheck %s
// RUN: shale-opt %s --shale-fusion -o %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact
// RUN: sed s/cuda:sm_90a/cpu:x86-64-v3/ %s | shale-opt --shale-fusion | FileCheck %s --check-prefix=CPU

module attributes {nn.target = "cuda:sm_90a"} {
// CHECK-LABEL: func.func @both
// CHECK: %[[BOTH:.*]]:2 = nn.cluster
// CHECK: nn.transpose
// CHECK-NOT: nn.cluster
// CHECK: return %[[BOTH]]#0, %[[BOTH]]#1
// CPU-LABEL: func.func @both
// CPU-COUNT-2: nn.cluster
func.func @both(%x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32x64xf32>) {
  %0 = nn.neg %x : tensor<64x32xf32>
  %1 = nn.transpose %0 perm = [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
  return %0, %1 : tensor<64x32xf32>, tensor<32x64xf32>
}

// The rows' kernel would store columns.
// CHECK-LABEL: func.func @rows
// CHECK: nn.cluster
// CHECK: nn.reduce
// CHECK: nn.cluster
// CHECK: nn.transpose
func.func @rows(%x: tensor<64x32xf32>) -> (tensor<64x32xf32>, tensor<32x64xf32>, tensor<64xf32>) {
  %0 = nn.neg %x : tensor<64x32xf32>
  %1 = nn.reduce sum %0 dims = [1] : tensor<64x32xf32> -> tensor<64xf32>
  %2 = nn.broadcast %1 dims = [0] : tensor<64xf32> -> tensor<64x32xf32>
  %3 = nn.mul %0, %2 : tensor<64x32xf32>
  %4 = nn.transpose %3 perm = [1, 0] : tensor<64x32xf32> -> tensor<32x64xf32>
  return %3, %4, %1 : tensor<64x32xf32>, tensor<32x64xf32>, tensor<64xf32>
}

// Rows of heads stay together: this is a kernel of its own.
// CHECK-LABEL: func.func @heads
// CHECK: nn.cluster
// CHECK: nn.cluster
func.func @heads(%x: tensor<64x32xf32>) -> (tensor<4x8x64xf32>, tensor<8x4x64xf32>) {
  %0 = nn.reshape %x : tensor<64x32xf32> -> tensor<4x8x64xf32>
  %1 = nn.neg %0 : tensor<4x8x64xf32>
  %2 = nn.transpose %1 perm = [1, 0, 2] : tensor<4x8x64xf32> -> tensor<8x4x64xf32>
  return %1, %2 : tensor<4x8x64xf32>, tensor<8x4x64xf32>
}
}
