// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// A lookup and its gradient.
// CHECK-LABEL: func.func @embedding
// CHECK: nn.embedding %{{.*}}, %{{.*}} : (tensor<256x64xf32>, tensor<4x8xi64>) -> tensor<4x8x64xf32>
// CHECK: nn.embedding %{{.*}}, %{{.*}} padding = 3 : (tensor<256x64xf32>
// CHECK: nn.embedding_grad %{{.*}}, %{{.*}} : (tensor<4x8xi64>, tensor<4x8x64xf32>) -> tensor<256x64xf32>
func.func @embedding(%t: tensor<256x64xf32>, %i: tensor<4x8xi64>) {
  %0 = nn.embedding %t, %i : (tensor<256x64xf32>, tensor<4x8xi64>) -> tensor<4x8x64xf32>
  %2 = nn.embedding %t, %i padding = 3 : (tensor<256x64xf32>, tensor<4x8xi64>) -> tensor<4x8x64xf32>
  %1 = nn.embedding_grad %i, %0 : (tensor<4x8xi64>, tensor<4x8x64xf32>) -> tensor<256x64xf32>
  return
}
