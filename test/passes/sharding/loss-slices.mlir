// A cross-entropy over split classes is that of all classes: rows that are ignored, labels that are no class, padding, and a rank
// that has only padding.
// RUN: shale-opt %s --shale-propagate --shale-verify-sharded --shale-partition -o %t.mlir
// RUN: FileCheck %s --input-file %t.mlir
// RUN: shale-run --as=f64 %s --compare=%t.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
// EQUAL-DAG: @all: 3 values, 0 differ in value
// EQUAL-DAG: @padded: 4 values, 0 differ in value
// The same on two tensor axes.
// RUN: sed 's/\[tensor "tp"=4\]/[tensor "a"=2, tensor "b"=2]/; s/{"tp"}/{"a", "b"}/' %s > %t.two.mlir
// RUN: shale-opt %t.two.mlir --shale-propagate --shale-verify-sharded --shale-partition -o %t.parts.mlir
// RUN: shale-run --as=f64 %t.two.mlir --compare=%t.parts.mlir --tolerance=1e-12 | FileCheck %s --check-prefix=EQUAL
dist.mesh @mesh <[tensor "tp"=4]>

// CHECK-LABEL: @all
// CHECK: nn.cross_entropy {{.*}} ignore_index = -1 {{.*}}tensor<6x2xf32>
func.func @all(%x: tensor<6x3xf32>, %table: tensor<8x3xf32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>) {
  %w = dist.constrain %table to <[{"tp"}, {}]> : tensor<8x3xf32>
  %labels = nn.constant dense<[0, 7, -100, 3, 8, -5]> : tensor<6xi64>
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<6x3xf32>, tensor<8x3xf32>) -> tensor<6x8xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<6x8xf32>, tensor<6xi64>
  return %sum, %count, %lse : tensor<f32>, tensor<f32>, tensor<6xf32>
}

// CHECK-LABEL: @padded
// CHECK: nn.cross_entropy {{.*}} ignore_index = -1 {{.*}}tensor<6x2xf32>
func.func @padded(%x: tensor<6x3xf32>, %table: tensor<8x3xf32>, %g: tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<6xf32>, tensor<6x3xf32>) {
  %w = dist.constrain %table to <[{"tp"}, {}]> : tensor<8x3xf32>
  %labels = nn.constant dense<[0, 2, 1, 3, 6, -1]> : tensor<6xi64>
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<6x3xf32>, tensor<8x3xf32>) -> tensor<6x8xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = 1 classes = 3 : tensor<6x8xf32>, tensor<6xi64>
  %d = nn.cross_entropy_grad %logits, %labels, %lse, %g ignore_index = 1 classes = 3 : tensor<6x8xf32>, tensor<6xi64>
  %dx = nn.matmul %d, %w : (tensor<6x8xf32>, tensor<8x3xf32>) -> tensor<6x3xf32>
  return %sum, %count, %lse, %dx : tensor<f32>, tensor<f32>, tensor<6xf32>, tensor<6x3xf32>
}
