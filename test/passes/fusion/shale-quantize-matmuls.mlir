// RUN: shale-opt %s --shale-quantize-matmuls -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// The op computes what `quantized` says; in f64 nothing is rounded. Fusion and what follows it changes no bits.
// RUN: shale-run %s --compare=%t.mlir --tolerance=1e-6 | FileCheck %s --check-prefix=EQUAL
// RUN: shale-run --as f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL: @step: 3 values, 0 differ in value
// RUN: shale-opt %t.mlir --shale-widen --shale-decompose --shale-split-reductions --shale-fusion -o %t.fused.mlir
// RUN: shale-run %t.mlir --compare=%t.fused.mlir --exact

module attributes {nn.target = "cuda:sm_90a"} {
// The gradient of %w reads it transposed, with the same scale; so does %g, which
// the gradient of %x reads as it is, and %w.
// CHECK-LABEL: func.func @step
// CHECK: %[[WIDE:.*]] = nn.cast %arg0 {nn.phase = #forward} : tensor<16x32xbf16> -> tensor<16x32xf32>
// CHECK: %[[ABS:.*]] = nn.abs %[[WIDE]]
// CHECK: %[[ROWS:.*]] = nn.reduce max %[[ABS]] dims = [1]
// CHECK: %[[MAX:.*]] = nn.reduce max %[[ROWS]] dims = [0]
// CHECK: %[[LEAST:.*]] = nn.constant {{.*}}dense<9.99999996E-13> : tensor<f32>
// CHECK: %[[SIZE:.*]] = nn.max %[[MAX]], %[[LEAST]]
// CHECK: %[[LARGEST:.*]] = nn.constant {{.*}}dense<4.480000e+02> : tensor<f32>
// CHECK: %[[FACTOR:.*]] = nn.div %[[LARGEST]], %[[SIZE]]
// CHECK: %[[ONE:.*]] = nn.constant {{.*}}dense<1.000000e+00> : tensor<f32>
// CHECK: %[[INVERSE:.*]] = nn.div %[[ONE]], %[[FACTOR]]
// CHECK: %[[X:.*]] = nn.quantize %{{.*}} {nn.phase = #forward} : tensor<16x32xf32> -> tensor<16x32xf8E4M3FN>
// CHECK: %[[W:.*]] = nn.quantize %{{.*}} {nn.phase = #forward} : tensor<48x32xf32> -> tensor<48x32xf8E4M3FN>
// CHECK: nn.quantized_matmul %[[X]], %[[W]] scales %[[INVERSE]], %{{.*}} {nn.phase = #forward} : {{.*}} -> tensor<16x48xbf16>
// CHECK: nn.constant {{.*}}dense<5.734400e+04> : tensor<f32>
// CHECK: %[[G:.*]] = nn.quantize %{{.*}} {nn.phase = #backward} : tensor<16x48xf32> -> tensor<16x48xf8E5M2>
// CHECK: %[[AGAIN:.*]] = nn.quantize %{{.*}} {nn.phase = #backward} : tensor<48x32xf32> -> tensor<48x32xf8E4M3FN>
// CHECK: %[[WT:.*]] = nn.transpose %[[AGAIN]] perm = [1, 0] {nn.phase = #backward}
// CHECK: nn.quantized_matmul %[[G]], %[[WT]] scales
// CHECK-NOT: nn.reduce
// CHECK: %[[GT:.*]] = nn.transpose %[[G]] perm = [1, 0] {nn.phase = #backward}
// CHECK: %[[XAGAIN:.*]] = nn.quantize %{{.*}} {nn.phase = #backward} : tensor<16x32xf32> -> tensor<16x32xf8E4M3FN>
// CHECK: %[[XT:.*]] = nn.transpose %[[XAGAIN]] perm = [1, 0] {nn.phase = #backward}
// CHECK: nn.quantized_matmul %[[GT]], %[[XT]] scales %{{.*}}, %[[INVERSE]] {nn.phase = #backward} : {{.*}} -> tensor<48x32xf32>
func.func @step(%x: tensor<16x32xbf16>, %w: tensor<48x32xbf16>, %g: tensor<16x48xbf16>) -> (tensor<16x48xbf16>, tensor<16x32xbf16>, tensor<48x32xf32>) {
  %0 = nn.matmul %x, %w transpose_rhs quantized [f8E4M3FN, f8E4M3FN] {nn.phase = #nn.phase<forward>} : (tensor<16x32xbf16>, tensor<48x32xbf16>) -> tensor<16x48xbf16>
  %2 = nn.matmul %g, %w quantized [f8E5M2, f8E4M3FN] {nn.phase = #nn.phase<backward>} : (tensor<16x48xbf16>, tensor<48x32xbf16>) -> tensor<16x32xbf16>
  %3 = nn.matmul %g, %x transpose_lhs quantized [f8E5M2, f8E4M3FN] {nn.phase = #nn.phase<backward>} : (tensor<16x48xbf16>, tensor<16x32xbf16>) -> tensor<48x32xf32>
  return %0, %2, %3 : tensor<16x48xbf16>, tensor<16x32xbf16>, tensor<48x32xf32>
}
}
