// RUN: shale-opt %s --split-input-file --shale-cluster-kernels | FileCheck %s

module attributes {nn.target = "cuda:sm_90a"} {
// A block of 128 threads takes 16 rows, a warp each, four at a time in a loop of four. It loads a row before it stores one, and adds the rows'
// elements to sums that the loop carries: 4 columns of each of two outputs. The four warps' sums meet in shared memory.
// CHECK-LABEL: gpu.func @kernel_0(
// CHECK-SAME: workgroup(%[[SUMS:.*]] : memref<512xf32, #gpu.address_space<workgroup>>) kernel
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 2, 1, 1>
// CHECK: %[[LOOP:.*]]:8 = scf.for {{.*}} iter_args
// CHECK-DAG: vector.load %arg0
// CHECK-DAG: vector.load %arg1
// CHECK: arith.addf
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK-NOT: vector.load
// CHECK: vector.store %{{.*}}, %arg2
// CHECK: scf.yield
// CHECK-NOT: gpu.barrier
// CHECK: memref.store %[[LOOP]]#0, %[[SUMS]]
// CHECK: gpu.barrier
// CHECK-COUNT-4: memref.load %[[SUMS]]
// CHECK: memref.store %{{.*}}, %arg3
// CHECK: gpu.barrier
// CHECK: memref.store %[[LOOP]]#4, %[[SUMS]]
func.func @f(%x: tensor<32x128xf32>, %y: tensor<32x128xf32>) -> (tensor<32x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>) {
  %0:3 = nn.cluster (%a = %x : tensor<32x128xf32>, %b = %y : tensor<32x128xf32>) -> (tensor<32x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>) aliases [0, -1, -1] {
    %1 = nn.reduce sum %a dims = [1] : tensor<32x128xf32> -> tensor<32xf32>
    %2 = nn.broadcast %1 dims = [0] : tensor<32xf32> -> tensor<32x128xf32>
    %3 = nn.sub %b, %2 : tensor<32x128xf32>
    %4 = nn.reshape %a : tensor<32x128xf32> -> tensor<2x16x128xf32>
    %5 = nn.reduce sum %4 dims = [1] : tensor<2x16x128xf32> -> tensor<2x128xf32>
    %6 = nn.reshape %3 : tensor<32x128xf32> -> tensor<2x16x128xf32>
    %7 = nn.reduce sum %6 dims = [1] : tensor<2x16x128xf32> -> tensor<2x128xf32>
    nn.yield %3, %5, %7 : tensor<32x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>
  }
  return %0#0, %0#1, %0#2 : tensor<32x128xf32>, tensor<2x128xf32>, tensor<2x128xf32>
}
}

// -----

module attributes {nn.target = "cuda:sm_90a"} {
// Four warps share a row of 4096 elements. Two buffers for their sums alternate, so that a row has one barrier, and each thread stores its sums.
// CHECK-LABEL: gpu.func @kernel_0(
// CHECK-SAME: workgroup(%[[SUMS:.*]] : memref<8xf32, #gpu.address_space<workgroup>>) kernel
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 2, 1, 1>
// CHECK: %{{.*}}:32 = scf.for %[[I:.*]] = {{.*}} iter_args
// CHECK: arith.remui %[[I]]
// CHECK: gpu.barrier
// CHECK-NOT: gpu.barrier
// CHECK: scf.yield
// CHECK-COUNT-8: vector.store %{{.*}}, %arg2[%{{.*}}] {alignment = 16 : i64} : memref<8192xf32>, vector<4xf32>
func.func @f(%x: tensor<32x4096xbf16>) -> (tensor<32xf32>, tensor<2x4096xf32>) {
  %0:2 = nn.cluster (%a = %x : tensor<32x4096xbf16>) -> (tensor<32xf32>, tensor<2x4096xf32>) {
    %1 = nn.cast %a : tensor<32x4096xbf16> -> tensor<32x4096xf32>
    %2 = nn.reduce sum %1 dims = [1] : tensor<32x4096xf32> -> tensor<32xf32>
    %3 = nn.broadcast %2 dims = [0] : tensor<32xf32> -> tensor<32x4096xf32>
    %4 = nn.mul %1, %3 : tensor<32x4096xf32>
    %5 = nn.reshape %4 : tensor<32x4096xf32> -> tensor<2x16x4096xf32>
    %6 = nn.reduce sum %5 dims = [1] : tensor<2x16x4096xf32> -> tensor<2x4096xf32>
    nn.yield %2, %6 : tensor<32xf32>, tensor<2x4096xf32>
  }
  return %0#0, %0#1 : tensor<32xf32>, tensor<2x4096xf32>
}
}

// -----

module attributes {nn.target = "cuda:sm_90a"} {
// Two warps share a row of 2048 elements, and a block takes two such rows side by side, in a loop of eight. Each row has its place in the two
// buffers. The sums of the columns of both rows meet in shared memory.
// CHECK-LABEL: gpu.func @kernel_0(
// CHECK-SAME: workgroup(%[[SUMS:.*]] : memref<8xf32, #gpu.address_space<workgroup>>, %[[PARTS:.*]] : memref<4096xf32, #gpu.address_space<workgroup>>) kernel
// CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 2, 1, 1>
// CHECK: %[[ROW:.*]] = arith.divui %{{.*}}, %c64
// CHECK: %[[LOOP:.*]]:32 = scf.for %[[I:.*]] = %c0 to %c8 {{.*}} iter_args
// CHECK: arith.remui %[[I]]
// CHECK: arith.muli %[[ROW]], %c2
// CHECK: gpu.barrier
// CHECK-COUNT-2: memref.load %[[SUMS]]
// CHECK-NOT: gpu.barrier
// CHECK: scf.yield
// CHECK: memref.store %[[LOOP]]#0, %[[PARTS]]
// CHECK: gpu.barrier
// CHECK-COUNT-2: memref.load %[[PARTS]]
// CHECK: memref.store %{{.*}}, %arg2
func.func @f(%x: tensor<32x2048xbf16>) -> (tensor<32xf32>, tensor<2x2048xf32>) {
  %0:2 = nn.cluster (%a = %x : tensor<32x2048xbf16>) -> (tensor<32xf32>, tensor<2x2048xf32>) {
    %1 = nn.cast %a : tensor<32x2048xbf16> -> tensor<32x2048xf32>
    %2 = nn.reduce sum %1 dims = [1] : tensor<32x2048xf32> -> tensor<32xf32>
    %3 = nn.broadcast %2 dims = [0] : tensor<32xf32> -> tensor<32x2048xf32>
    %4 = nn.mul %1, %3 : tensor<32x2048xf32>
    %5 = nn.reshape %4 : tensor<32x2048xf32> -> tensor<2x16x2048xf32>
    %6 = nn.reduce sum %5 dims = [1] : tensor<2x16x2048xf32> -> tensor<2x2048xf32>
    nn.yield %2, %6 : tensor<32xf32>, tensor<2x2048xf32>
  }
  return %0#0, %0#1 : tensor<32xf32>, tensor<2x2048xf32>
}
}
