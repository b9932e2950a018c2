// RUN: shale-opt %s --shale-split-reductions -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// Sums in another order are compared in f64. Maxima have the same bits.
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL: @split: 8 values, 0 differ in value
// A CPU target uses one part, so the pass changes nothing.
// RUN: shale-opt %s --shale-annotate-target=target=cpu:x86-64-v3 --shale-split-reductions | FileCheck %s --check-prefix=CPU
// CPU-NOT: nn.reshape
// A module for an unknown target is an error.
// RUN: sed s/cuda:sm_90a/cuda:sm_1/ %s > %t.unknown.mlir
// RUN: not shale-opt %t.unknown.mlir --shale-split-reductions 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: {{.*}}unknown GPU architecture 'sm_1'

module attributes {nn.target = "cuda:sm_90a"} {
// CHECK-LABEL: @split
// CHECK-SAME: (%[[X:.*]]: tensor<4x256x96xf32>, %[[Y:.*]]: tensor<2x24568xf32>, %[[Z:.*]]: tensor<64x512xf32>,
func.func @split(%x: tensor<4x256x96xf32>, %y: tensor<2x24568xf32>, %z: tensor<64x512xf32>, %middle: tensor<3x4096x5xf32>, %few: tensor<96x8xf32>, %many: tensor<1024x4096xf32>,
    %prime: tensor<20011xf32>, %none: tensor<0x8xf32>) -> (tensor<96xf32>, tensor<2xf32>, tensor<f32>, tensor<3x5xf32>, tensor<8xf32>, tensor<1024xf32>, tensor<f32>, tensor<8xf32>) {
  // At least 64 rows per part. The phase is kept.
  // CHECK-NEXT: %[[PARTS:.*]] = nn.reshape %[[X]] {nn.phase = #backward} : tensor<4x256x96xf32> -> tensor<16x64x96xf32>
  // CHECK-NEXT: %[[SUMS:.*]] = nn.reduce sum %[[PARTS]] dims = [1] {nn.phase = #backward} : tensor<16x64x96xf32> -> tensor<16x96xf32>
  // CHECK-NEXT: %[[SUM:.*]] = nn.reduce sum %[[SUMS]] dims = [0] {nn.phase = #backward} : tensor<16x96xf32> -> tensor<96xf32>
  %0 = nn.reduce sum %x dims = [0, 1] {nn.phase = #nn.phase<backward>} : tensor<4x256x96xf32> -> tensor<96xf32>
  // At least 4096 elements per part of a row: 5 parts, which do not divide 24568, but 8 do.
  // CHECK-NEXT: nn.reshape %[[Y]] : tensor<2x24568xf32> -> tensor<2x8x3071xf32>
  // CHECK-NEXT: nn.reduce max %{{.*}} dims = [2] : tensor<2x8x3071xf32> -> tensor<2x8xf32>
  // CHECK-NEXT: %[[MAX:.*]] = nn.reduce max %{{.*}} dims = [1] : tensor<2x8xf32> -> tensor<2xf32>
  %1 = nn.reduce max %y dims = [1] : tensor<2x24568xf32> -> tensor<2xf32>
  // All elements are one row.
  // CHECK-NEXT: nn.reshape %[[Z]] : tensor<64x512xf32> -> tensor<8x4096xf32>
  // CHECK-NEXT: nn.reduce sum %{{.*}} dims = [1] : tensor<8x4096xf32> -> tensor<8xf32>
  // CHECK-NEXT: %[[ALL:.*]] = nn.reduce sum %{{.*}} dims = [0] : tensor<8xf32> -> tensor<f32>
  %2 = nn.reduce sum %z dims = [0, 1] : tensor<64x512xf32> -> tensor<f32>
  // Not split: dimensions between others, few elements per result, enough results, no divisor near the number, no elements.
  // CHECK-NOT: nn.reshape
  // CHECK: return %[[SUM]], %[[MAX]], %[[ALL]]
  %3 = nn.reduce sum %middle dims = [1] : tensor<3x4096x5xf32> -> tensor<3x5xf32>
  %4 = nn.reduce sum %few dims = [0] : tensor<96x8xf32> -> tensor<8xf32>
  %5 = nn.reduce sum %many dims = [1] : tensor<1024x4096xf32> -> tensor<1024xf32>
  %6 = nn.reduce sum %prime dims = [0] : tensor<20011xf32> -> tensor<f32>
  %7 = nn.reduce sum %none dims = [0] : tensor<0x8xf32> -> tensor<8xf32>
  return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<96xf32>, tensor<2xf32>, tensor<f32>, tensor<3x5xf32>, tensor<8xf32>, tensor<1024xf32>, tensor<f32>, tensor<8xf32>
}
}
