// RUN: shale-opt %s --shale-pad-matmuls=least-work=0 -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @step: 3 values, 0 differ in value
// EQUAL-DAG: @sizes: 6 values, 0 differ in value
// A CPU target pads nothing. By default small matmuls are not padded.
// RUN: sed s/cuda:sm_90a/cpu:x86-64-v3/ %s > %t.cpu.mlir
// RUN: shale-opt %t.cpu.mlir --shale-pad-matmuls=least-work=0 | FileCheck %s --check-prefix=NONE
// RUN: shale-opt %s --shale-pad-matmuls | FileCheck %s --check-prefix=NONE
// NONE-NOT: nn.pad
// RUN: sed s/cuda:sm_90a/cuda:sm_1/ %s > %t.unknown.mlir
// RUN: not shale-opt %t.unknown.mlir --shale-pad-matmuls 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: {{.*}}unknown GPU architecture 'sm_1'

module attributes {nn.target = "cuda:sm_90a"} {
// Logits and their gradient are computed with padding. The weight is padded once per phase, and the sum of its gradient is sliced once.
// CHECK-LABEL: @step
// CHECK: %[[W:.*]] = nn.pad %{{.*}} low = [0, 0] high = [7, 0] interior = [0, 0] value = 0.000000e+00 {nn.phase = #backward} : tensor<65x64xbf16> -> tensor<72x64xbf16>
// CHECK: %[[L:.*]] = nn.matmul %{{.*}}, %[[W]] transpose_rhs {nn.phase = #backward} : (tensor<64x64xbf16>, tensor<72x64xbf16>) -> tensor<64x72xbf16>
// CHECK: %[[L32:.*]] = nn.cast %[[L]]
// CHECK: %[[COLUMN:.*]] = nn.iota dim = 1
// CHECK: %[[END:.*]] = nn.constant dense<65>
// CHECK: %[[IN:.*]] = nn.compare lt %[[COLUMN]], %[[END]]
// CHECK: %[[ABSENT:.*]] = nn.constant dense<0xFF800000>
// CHECK: %[[READ:.*]] = nn.select %[[IN]], %[[L32]], %[[ABSENT]]
// CHECK: nn.cross_entropy %[[READ]]
// CHECK: %[[D32:.*]] = nn.cross_entropy_grad %{{.*}} : tensor<64x72xf32>
// CHECK: %[[D:.*]] = nn.cast %[[D32]] {{.*}} : tensor<64x72xf32> -> tensor<64x72xbf16>
// CHECK-NOT: nn.pad
// CHECK: nn.matmul %[[D]], %[[W]] {nn.phase = #backward} : (tensor<64x72xbf16>, tensor<72x64xbf16>) -> tensor<64x64xbf16>
// CHECK: %[[SUM:.*]] = nn.matmul %[[D]], %{{.*}} transpose_lhs {nn.phase = #backward} : (tensor<64x72xbf16>, tensor<64x64xbf16>) -> tensor<72x64xf32>
// CHECK: %[[SUMS:.*]] = nn.matmul_add %[[SUM]], %[[D]], %{{.*}} transpose_lhs
// CHECK: %[[DW:.*]] = nn.slice %[[SUMS]] starts = [0, 0] limits = [65, 64] strides = [1, 1] {nn.phase = #backward} : tensor<72x64xf32> -> tensor<65x64xf32>
// CHECK-NOT: nn.slice
// CHECK: return
func.func @step(%x32: tensor<64x64xf32>, %w32: tensor<65x64xf32>, %labels: tensor<64xi64>, %g: tensor<f32>) -> (tensor<f32>, tensor<64x64xbf16>, tensor<65x64xf32>) {
  %x = nn.cast %x32 : tensor<64x64xf32> -> tensor<64x64xbf16>
  %w = nn.cast %w32 : tensor<65x64xf32> -> tensor<65x64xbf16>
  %logits = nn.matmul %x, %w transpose_rhs {nn.phase = #nn.phase<backward>} : (tensor<64x64xbf16>, tensor<65x64xbf16>) -> tensor<64x65xbf16>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 {nn.phase = #nn.phase<backward>} : tensor<64x65xbf16>, tensor<64xi64>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = -100 {nn.phase = #nn.phase<backward>} : tensor<64x65xbf16>, tensor<64xi64>
  %dx = nn.matmul %d, %w {nn.phase = #nn.phase<backward>} : (tensor<64x65xbf16>, tensor<65x64xbf16>) -> tensor<64x64xbf16>
  %dw = nn.matmul %d, %x transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<64x65xbf16>, tensor<64x64xbf16>) -> tensor<65x64xf32>
  %twice = nn.matmul_add %dw, %d, %x transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<65x64xf32>, tensor<64x65xbf16>, tensor<64x64xbf16>) -> tensor<65x64xf32>
  return %sum, %dx, %twice : tensor<f32>, tensor<64x64xbf16>, tensor<65x64xf32>
}

// Each size that is contiguous in memory is padded: n; k of lhs; k of a transposed rhs; m of a transposed lhs. Sizes from 1024 on are padded to
// multiples of 128. Small matmuls and matmuls of f32 are not padded.
// CHECK-LABEL: @sizes
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<2x3x72xbf16>, tensor<2x72x1152xbf16>) -> tensor<2x3x1152xbf16>
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_lhs : (tensor<65x72xbf16>, tensor<65x8xbf16>) -> tensor<72x8xbf16>
// CHECK: nn.matmul %{{.*}}, %{{.*}} transpose_lhs transpose_rhs : (tensor<72x72xbf16>, tensor<8x72xbf16>) -> tensor<72x8xbf16>
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<9x9xbf16>, tensor<9x9xbf16>) -> tensor<9x9xbf16>
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<2x3x65xf32>, tensor<2x65x1025xf32>) -> tensor<2x3x1025xf32>
// CHECK: nn.matmul %{{.*}}, %{{.*}} : (tensor<0x72xbf16>, tensor<72x8xbf16>) -> tensor<0x8xbf16>
func.func @sizes() -> (tensor<2x3x1025xbf16>, tensor<65x8xbf16>, tensor<65x8xbf16>, tensor<9x9xbf16>, tensor<2x3x1025xf32>, tensor<0x8xbf16>) {
  %i = nn.iota dim = 2 : tensor<2x3x65xi64>
  %a32 = nn.cast %i : tensor<2x3x65xi64> -> tensor<2x3x65xf32>
  %a = nn.cast %a32 : tensor<2x3x65xf32> -> tensor<2x3x65xbf16>
  %b32 = nn.constant dense<0.5> : tensor<2x65x1025xf32>
  %b = nn.constant dense<0.5> : tensor<2x65x1025xbf16>
  %c = nn.constant dense<2.0> : tensor<65x65xbf16>
  %d = nn.constant dense<3.0> : tensor<65x8xbf16>
  %e = nn.constant dense<4.0> : tensor<8x65xbf16>
  %f = nn.constant dense<5.0> : tensor<9x9xbf16>
  %none = nn.constant dense<1.0> : tensor<0x72xbf16>
  %h = nn.constant dense<1.0> : tensor<72x8xbf16>
  %0 = nn.matmul %a, %b : (tensor<2x3x65xbf16>, tensor<2x65x1025xbf16>) -> tensor<2x3x1025xbf16>
  %1 = nn.matmul %c, %d transpose_lhs : (tensor<65x65xbf16>, tensor<65x8xbf16>) -> tensor<65x8xbf16>
  %2 = nn.matmul %c, %e transpose_lhs transpose_rhs : (tensor<65x65xbf16>, tensor<8x65xbf16>) -> tensor<65x8xbf16>
  %3 = nn.matmul %f, %f : (tensor<9x9xbf16>, tensor<9x9xbf16>) -> tensor<9x9xbf16>
  %4 = nn.matmul %a32, %b32 : (tensor<2x3x65xf32>, tensor<2x65x1025xf32>) -> tensor<2x3x1025xf32>
  %5 = nn.matmul %none, %h : (tensor<0x72xbf16>, tensor<72x8xbf16>) -> tensor<0x8xbf16>
  return %0, %1, %2, %3, %4, %5 : tensor<2x3x1025xbf16>, tensor<65x8xbf16>, tensor<65x8xbf16>, tensor<9x9xbf16>, tensor<2x3x1025xf32>, tensor<0x8xbf16>
}
}
