// How many rows a chunk has.
// RUN: shale-opt %s --shale-chunk-losses --remarks-filter=chunk-losses 2>&1 | FileCheck %s
// RUN: sed s/cpu:x86-64-v3/cuda:sm_90a/ %s > %t.mlir
// RUN: shale-opt %t.mlir --shale-chunk-losses --remarks-filter=chunk-losses 2>&1 | FileCheck %s --check-prefix=GPU
// RUN: shale-opt %s --shale-chunk-losses=loss-chunk=60 --remarks-filter=chunk-losses 2>&1 | FileCheck %s --check-prefix=PRIME
// RUN: shale-opt %s --shale-chunk-losses=loss-chunk=1 --remarks-filter=chunk-losses 2>&1 | FileCheck %s --check-prefix=MOST
// RUN: sed s/cpu:x86-64-v3/cpu:none/ %s > %t.unknown.mlir
// RUN: not shale-opt %t.unknown.mlir --shale-chunk-losses 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// UNKNOWN: error: {{.*}}unknown CPU 'none'

// CHECK: the loss over 12288 rows is computed in 12 chunks
// GPU: the loss over 12288 rows is computed in 3 chunks
// PRIME: the loss over 101 rows is computed at once: 101 rows have no divisor that fits
// MOST: the loss over 12288 rows is computed in 256 chunks
// The next number that divides 33000 is below 256.
// MOST: the loss over 33000 rows is computed in 250 chunks
module attributes {nn.target = "cpu:x86-64-v3"} {
func.func @large(%x: tensor<12288x64xf32>, %w: tensor<2048x64xf32>, %labels: tensor<12288xi64>) -> tensor<f32> {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<12288x64xf32>, tensor<2048x64xf32>) -> tensor<12288x2048xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<12288x2048xf32>, tensor<12288xi64>
  return %sum : tensor<f32>
}
func.func @many(%x: tensor<33000x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<33000xi64>) -> tensor<f32> {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<33000x3xf32>, tensor<9x3xf32>) -> tensor<33000x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<33000x9xf32>, tensor<33000xi64>
  return %sum : tensor<f32>
}
func.func @prime(%x: tensor<101x3xf32>, %w: tensor<9x3xf32>, %labels: tensor<101xi64>) -> tensor<f32> {
  %logits = nn.matmul %x, %w transpose_rhs : (tensor<101x3xf32>, tensor<9x3xf32>) -> tensor<101x9xf32>
  %sum, %count, %lse = nn.cross_entropy %logits, %labels ignore_index = -100 : tensor<101x9xf32>, tensor<101xi64>
  return %sum : tensor<f32>
}
}
