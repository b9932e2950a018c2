// A slice of rows that begins at a multiple of 64 bytes is a view, which kernels read directly. Other slices become part of kernels.
// RUN: shale-opt %s --shale-fusion -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run %s --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @rows: 2 values, 0 differ in their bits
// EQUAL-DAG: @unaligned: 1 values, 0 differ in their bits
// EQUAL-DAG: @strided: 2 values, 0 differ in their bits

// Both halves have kernels of the same form, and their common source is computed once.
// CHECK-LABEL: @rows
// CHECK: %[[H:.*]] = nn.cluster
// CHECK: nn.tanh
// CHECK-DAG: %[[LOW:.*]] = nn.slice %[[H]] starts = [0, 0] limits = [32, 16] strides = [1, 1] : tensor<64x16xf32> -> tensor<32x16xf32>
// CHECK-DAG: %[[HIGH:.*]] = nn.slice %[[H]] starts = [32, 0] limits = [64, 16] strides = [1, 1] : tensor<64x16xf32> -> tensor<32x16xf32>
// CHECK-NOT: nn.tanh
// CHECK: return
func.func @rows(%x: tensor<64x16xf32>) -> (tensor<32x16xf32>, tensor<32xf32>) {
  %h = nn.tanh %x : tensor<64x16xf32>
  %low = nn.slice %h starts = [0, 0] limits = [32, 16] strides = [1, 1] : tensor<64x16xf32> -> tensor<32x16xf32>
  %high = nn.slice %h starts = [32, 0] limits = [64, 16] strides = [1, 1] : tensor<64x16xf32> -> tensor<32x16xf32>
  %0 = nn.exp %low : tensor<32x16xf32>
  %e = nn.exp %high : tensor<32x16xf32>
  %1 = nn.reduce sum %e dims = [1] : tensor<32x16xf32> -> tensor<32xf32>
  return %0, %1 : tensor<32x16xf32>, tensor<32xf32>
}

// A slice that begins at byte 204.
// CHECK-LABEL: @unaligned
// CHECK: nn.cluster (%{{.*}} = %arg1 : tensor<64x3xf32>)
// CHECK: nn.slice {{.*}} starts = [17, 0]
// CHECK: nn.yield
func.func @unaligned(%x: tensor<64x16xf32>, %y: tensor<64x3xf32>) -> tensor<8x3xf32> {
  %part = nn.slice %y starts = [17, 0] limits = [25, 3] strides = [1, 1] : tensor<64x3xf32> -> tensor<8x3xf32>
  %0 = nn.exp %part : tensor<8x3xf32>
  return %0 : tensor<8x3xf32>
}

// A slice of every second row, and a slice of columns.
// CHECK-LABEL: @strided
// CHECK: nn.cluster (%{{.*}} = %arg0 : tensor<64x16xf32>) -> tensor<32x16xf32>
// CHECK: nn.cluster (%{{.*}} = %arg0 : tensor<64x16xf32>) -> tensor<64x8xf32>
func.func @strided(%x: tensor<64x16xf32>) -> (tensor<32x16xf32>, tensor<64x8xf32>) {
  %a = nn.slice %x starts = [0, 0] limits = [64, 16] strides = [2, 1] : tensor<64x16xf32> -> tensor<32x16xf32>
  %b = nn.slice %x starts = [0, 0] limits = [64, 8] strides = [1, 1] : tensor<64x16xf32> -> tensor<64x8xf32>
  %0 = nn.exp %a : tensor<32x16xf32>
  %1 = nn.exp %b : tensor<64x8xf32>
  return %0, %1 : tensor<32x16xf32>, tensor<64x8xf32>
}
