// RUN: shale-opt %s --shale-cluster-kernels | FileCheck %s

// How often kernels read long rows, and with which indices.
module attributes {nn.target = "cuda:sm_90a"} {
func.func @f(%x: tensor<4x40000xbf16>, %t: tensor<4xi32>, %v: tensor<32768xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<32768xf32>) {
  // The maximum and the sum of powers are found in one loop, which rescales the sum where the maximum grows. The label's logit is one load,
  // at a place that is tested.
  // CHECK-LABEL: gpu.func @kernel_0(
  // CHECK-SAME: shale.narrow_index
  // CHECK-NOT: math.exp
  // CHECK: arith.cmpi sge
  // CHECK: memref.load %arg0
  // CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %{{.*}}) -> (f32, f32)
  // CHECK: vector.load %arg0[%{{.*}}] {alignment = 16 : i64} : memref<160000xi16>, vector<8xi16>
  // CHECK: arith.cmpf une
  // CHECK: scf.if
  // CHECK-NOT: scf.for
  // CHECK: gpu.return
  %0:2 = nn.cluster (%a = %x : tensor<4x40000xbf16>, %b = %t : tensor<4xi32>) -> (tensor<4xf32>, tensor<4xf32>) {
    %1 = nn.cast %a : tensor<4x40000xbf16> -> tensor<4x40000xf32>
    %2 = nn.reduce max %1 dims = [1] : tensor<4x40000xf32> -> tensor<4xf32>
    %3 = nn.broadcast %2 dims = [0] : tensor<4xf32> -> tensor<4x40000xf32>
    %4 = nn.sub %1, %3 : tensor<4x40000xf32>
    %5 = nn.exp %4 : tensor<4x40000xf32>
    %6 = nn.reduce sum %5 dims = [1] : tensor<4x40000xf32> -> tensor<4xf32>
    %7 = nn.iota dim = 1 : tensor<4x40000xi32>
    %8 = nn.broadcast %b dims = [0] : tensor<4xi32> -> tensor<4x40000xi32>
    %9 = nn.compare eq %7, %8 : tensor<4x40000xi32> -> tensor<4x40000xi1>
    %10 = nn.constant dense<0.0> : tensor<4x40000xf32>
    %11 = nn.select %9, %1, %10 : tensor<4x40000xi1>, tensor<4x40000xf32>
    %12 = nn.reduce sum %11 dims = [1] : tensor<4x40000xf32> -> tensor<4xf32>
    nn.yield %6, %12 : tensor<4xf32>, tensor<4xf32>
  }
  // A value of 2^30 elements, which no buffer has: indices of 64 bits.
  // CHECK-LABEL: gpu.func @kernel_1(
  // CHECK-NOT: shale.narrow_index
  // CHECK: gpu.return
  %1 = nn.cluster (%a = %v : tensor<32768xf32>) -> tensor<32768xf32> {
    %2 = nn.broadcast %a dims = [1] : tensor<32768xf32> -> tensor<32768x32768xf32>
    %3 = nn.reduce sum %2 dims = [1] : tensor<32768x32768xf32> -> tensor<32768xf32>
    nn.yield %3 : tensor<32768xf32>
  }
  return %0#0, %0#1, %1 : tensor<4xf32>, tensor<4xf32>, tensor<32768xf32>
}
}
