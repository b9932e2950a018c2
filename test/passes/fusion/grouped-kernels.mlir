// Targets with a call or a kernel for groups of rows keep these matmuls. None has one for f64.
// RUN: shale-opt %s --shale-decompose | FileCheck %s
// RUN: sed s/cpu:x86-64-v3/cuda:sm_80,sm_90a/ %s | shale-opt --shale-decompose | FileCheck %s
// RUN: sed s/cpu:x86-64-v3/cuda:emulated/ %s | shale-opt --shale-decompose | FileCheck %s

module attributes {nn.target = "cpu:x86-64-v3"} {
// CHECK: @kept
func.func @kept(%x: tensor<7x3xbf16>, %w: tensor<4x3x2xbf16>, %v: tensor<7x3xf32>, %g: tensor<7x2xf32>, %e: tensor<4xi64>) -> (tensor<7x2xbf16>, tensor<4x3x2xf32>) {
  // CHECK: nn.grouped_matmul %{{.*}} -> tensor<7x2xbf16>
  %0 = nn.grouped_matmul %x, %w ends = %e : (tensor<7x3xbf16>, tensor<4x3x2xbf16>, tensor<4xi64>) -> tensor<7x2xbf16>
  // CHECK: nn.grouped_matmul_grad %{{.*}} -> tensor<4x3x2xf32>
  %1 = nn.grouped_matmul_grad %v, %g ends = %e : (tensor<7x3xf32>, tensor<7x2xf32>, tensor<4xi64>) -> tensor<4x3x2xf32>
  return %0, %1 : tensor<7x2xbf16>, tensor<4x3x2xf32>
}

// CHECK: @replaced
// CHECK-NOT: grouped
func.func @replaced(%x: tensor<7x3xf64>, %w: tensor<4x3x2xf64>, %g: tensor<7x2xf64>, %e: tensor<4xi32>) -> (tensor<7x2xf64>, tensor<4x3x2xf64>) {
  %0 = nn.grouped_matmul %x, %w ends = %e : (tensor<7x3xf64>, tensor<4x3x2xf64>, tensor<4xi32>) -> tensor<7x2xf64>
  %1 = nn.grouped_matmul_grad %x, %g ends = %e : (tensor<7x3xf64>, tensor<7x2xf64>, tensor<4xi32>) -> tensor<4x3x2xf64>
  return %0, %1 : tensor<7x2xf64>, tensor<4x3x2xf64>
}
}
