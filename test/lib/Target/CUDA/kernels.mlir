// RUN: shale-opt %s --shale-cluster-kernels | FileCheck %s

module attributes {nn.target = "cuda:sm_90a"} {
func.func @f(%x: tensor<6x1024xf32>, %w: tensor<3x40000xbf16>, %r: tensor<8x150xf32>, %m: tensor<8xf32>, %i: tensor<300xi64>, %g: tensor<300x40xbf16>,
    %j: tensor<9000xi64>, %h: tensor<9000x40xbf16>, %s: tensor<281x40xf32>)
    -> (tensor<6x1024xf32>, tensor<3xf32>, tensor<8x150xf32>, tensor<8xf32>, tensor<70x40xf32>, tensor<150x8xf32>, tensor<40xf32>, tensor<200x40xf32>, tensor<200xf32>) {
  // A warp per row, four rows per block. The row is loaded once, in accesses of 16 bytes, and stays in registers. Rows 6 and 7
  // of the last block are past the end: their loads and stores are guarded.
  // CHECK-LABEL: gpu.func @kernel_0(
  // CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 2, 1, 1>
  // CHECK: arith.cmpi ult, %{{.*}}, %c6
  // CHECK-COUNT-8: vector.load %arg0[%{{.*}}] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
  // CHECK-NOT: load %arg0
  // CHECK-COUNT-5: gpu.shuffle xor
  // CHECK-NOT: load %arg0
  // CHECK-COUNT-8: vector.store %{{.*}}, %arg1[%{{.*}}] {alignment = 16 : i64} : memref<6144xf32>, vector<4xf32>
  %0 = nn.cluster (%a = %x : tensor<6x1024xf32>) -> tensor<6x1024xf32> {
    %1 = nn.reduce sum %a dims = [1] : tensor<6x1024xf32> -> tensor<6xf32>
    %2 = nn.broadcast %1 dims = [0] : tensor<6xf32> -> tensor<6x1024xf32>
    %3 = nn.div %a, %2 : tensor<6x1024xf32>
    nn.yield %3 : tensor<6x1024xf32>
  }
  // 256 threads per row of 40000 elements, in a loop. The sums of the warps are added in shared memory.
  // CHECK-LABEL: gpu.func @kernel_1(
  // CHECK-SAME: workgroup(%[[SUMS:.*]] : memref<8xf32, #gpu.address_space<workgroup>>) kernel
  // CHECK-SAME: known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 3, 1, 1>
  // CHECK: scf.for {{.*}} iter_args
  // CHECK: vector.load %arg0[%{{.*}}] {alignment = 16 : i64} : memref<120000xi16>, vector<8xi16>
  // CHECK: memref.store %{{.*}}, %[[SUMS]]
  // CHECK: gpu.barrier
  // CHECK: memref.load %[[SUMS]]
  %4 = nn.cluster (%a = %w : tensor<3x40000xbf16>) -> tensor<3xf32> {
    %1 = nn.cast %a : tensor<3x40000xbf16> -> tensor<3x40000xf32>
    %2 = nn.reduce sum %1 dims = [1] : tensor<3x40000xf32> -> tensor<3xf32>
    nn.yield %2 : tensor<3xf32>
  }
  // Rows of 150 elements allow accesses of 8 bytes. The last chunk of a row is guarded. A result that overwrites an input with one element
  // per row is stored after a barrier.
  // CHECK-LABEL: gpu.func @kernel_2(
  // CHECK: scf.if
  // CHECK: vector.load %arg0[%{{.*}}] {alignment = 8 : i64} : memref<1200xf32>, vector<2xf32>
  // CHECK: gpu.barrier
  // CHECK: scf.if
  // CHECK-NEXT: memref.store %{{.*}}, %arg3
  %5:2 = nn.cluster (%a = %r : tensor<8x150xf32>, %b = %m : tensor<8xf32>) -> (tensor<8x150xf32>, tensor<8xf32>) aliases [0, 1] {
    %1 = nn.broadcast %b dims = [0] : tensor<8xf32> -> tensor<8x150xf32>
    %2 = nn.mul %a, %1 : tensor<8x150xf32>
    %3 = nn.reduce max %2 dims = [1] : tensor<8x150xf32> -> tensor<8xf32>
    %6 = nn.add %3, %b : tensor<8xf32>
    nn.yield %2, %6 : tensor<8x150xf32>, tensor<8xf32>
  }
  // A block computes 64 rows of a table. It lists the indices of its rows in order.
  // CHECK-LABEL: gpu.func @kernel_3(
  // CHECK-SAME: known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 2, 1, 1>
  // CHECK: gpu.shuffle up
  // CHECK-NOT: atomic
  // CHECK: arith.addf
  %7 = nn.cluster (%a = %i : tensor<300xi64>, %b = %g : tensor<300x40xbf16>) -> tensor<70x40xf32> {
    %1 = nn.embedding_grad %a, %b : (tensor<300xi64>, tensor<300x40xbf16>) -> tensor<70x40xf32>
    nn.yield %1 : tensor<70x40xf32>
  }
  // The order of 9000 indices: a block of two has 128 values, and its 64 threads have 160 indices each, in five tiles. Then the sums of
  // rows: four threads per row, in accesses of 4 columns, several terms at a time.
  // CHECK-LABEL: gpu.func @kernel_4(
  // CHECK-SAME: workgroup(%[[COUNTS:.*]] : memref<8256xi32, #gpu.address_space<workgroup>>
  // CHECK-SAME: known_block_size = array<i32: 64, 1, 1>, known_grid_size = array<i32: 2, 1, 1>
  // CHECK-NOT: atomic
  // CHECK-COUNT-5: gpu.barrier
  // CHECK-NOT: gpu.barrier
  // CHECK-LABEL: gpu.func @kernel_5(
  // CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 7, 1, 1>
  // CHECK-COUNT-4: vector.load %arg2[%{{.*}}] {alignment = 8 : i64} : memref<360000xi16>, vector<4xi16>
  // CHECK: arith.addf
  // CHECK-COUNT-4: vector.load %arg3[%{{.*}}] {alignment = 16 : i64} : memref<11240xf32>, vector<4xf32>
  // CHECK: vector.store %{{.*}}, %arg4[%{{.*}}] {alignment = 16 : i64} : memref<8000xf32>, vector<4xf32>
  // CHECK-NOT: gpu.barrier
  %10:2 = nn.cluster (%a = %j : tensor<9000xi64>) -> (tensor<9000xi32>, tensor<201xi32>) {
    %1, %2 = nn.argsort %a bound = 200 : tensor<9000xi64> -> tensor<9000xi32>, tensor<201xi32>
    nn.yield %1, %2 : tensor<9000xi32>, tensor<201xi32>
  }
  %11 = nn.cluster (%a = %10#0 : tensor<9000xi32>, %b = %10#1 : tensor<201xi32>, %c = %h : tensor<9000x40xbf16>, %d = %s : tensor<281x40xf32>) -> tensor<200x40xf32> {
    %1 = nn.sorted_embedding_grad %a, %b, %c, %d : (tensor<9000xi32>, tensor<201xi32>, tensor<9000x40xbf16>, tensor<281x40xf32>) -> tensor<200x40xf32>
    nn.yield %1 : tensor<200x40xf32>
  }
  // A transposition: adjacent elements are stored together and loaded one by one.
  // CHECK-LABEL: gpu.func @kernel_6(
  // CHECK-COUNT-4: memref.load %arg0
  // CHECK: vector.store {{.*}} vector<4xf32>
  %8 = nn.cluster (%a = %r : tensor<8x150xf32>) -> tensor<150x8xf32> {
    %1 = nn.transpose %a perm = [1, 0] : tensor<8x150xf32> -> tensor<150x8xf32>
    nn.yield %1 : tensor<150x8xf32>
  }
  // Sums of columns: a block takes a strip of 32 columns, 4 threads of 8 columns each, and 64 threads share a column. Their
  // sums are added in shared memory.
  // CHECK-LABEL: gpu.func @kernel_7(
  // CHECK-SAME: workgroup(%[[PARTS:.*]] : memref<2048xf32, #gpu.address_space<workgroup>>) kernel
  // CHECK-SAME: known_block_size = array<i32: 256, 1, 1>, known_grid_size = array<i32: 2, 1, 1>
  // CHECK: scf.for {{.*}} iter_args
  // CHECK: vector.load %arg0[%{{.*}}] {alignment = 16 : i64} : memref<12000xi16>, vector<8xi16>
  // CHECK-COUNT-8: memref.store %{{.*}}, %[[PARTS]]
  // CHECK: gpu.barrier
  // CHECK-COUNT-64: memref.load %[[PARTS]]
  %9 = nn.cluster (%b = %g : tensor<300x40xbf16>) -> tensor<40xf32> {
    %1 = nn.cast %b : tensor<300x40xbf16> -> tensor<300x40xf32>
    %2 = nn.reduce sum %1 dims = [0] : tensor<300x40xf32> -> tensor<40xf32>
    nn.yield %2 : tensor<40xf32>
  }
  // Sums of sorted rows and of their squares: the four threads of a row add their sums in two steps, and the first of them stores it.
  // CHECK-LABEL: gpu.func @kernel_8(
  // CHECK-SAME: workgroup(%[[SQUARES:.*]] : memref<128xf32, #gpu.address_space<workgroup>>) kernel
  // CHECK-SAME: known_block_size = array<i32: 128, 1, 1>, known_grid_size = array<i32: 7, 1, 1>
  // CHECK: vector.store %{{.*}}, %arg4[%{{.*}}] {alignment = 16 : i64} : memref<8000xf32>, vector<4xf32>
  // CHECK: memref.store %{{.*}}, %[[SQUARES]]
  // CHECK: gpu.barrier
  // CHECK: memref.store %{{.*}}, %[[SQUARES]]
  // CHECK: gpu.barrier
  // CHECK: memref.store %{{.*}}, %[[SQUARES]]
  // CHECK-NOT: gpu.barrier
  // CHECK: memref.store %{{.*}}, %arg5[%{{.*}}] : memref<200xf32>
  %12:2 = nn.cluster (%a = %10#0 : tensor<9000xi32>, %b = %10#1 : tensor<201xi32>, %c = %h : tensor<9000x40xbf16>, %d = %s : tensor<281x40xf32>) -> (tensor<200x40xf32>, tensor<200xf32>) {
    %1, %2 = nn.sorted_embedding_grad %a, %b, %c, %d : (tensor<9000xi32>, tensor<201xi32>, tensor<9000x40xbf16>, tensor<281x40xf32>) -> (tensor<200x40xf32>, tensor<200xf32>)
    nn.yield %1, %2 : tensor<200x40xf32>, tensor<200xf32>
  }
  %13 = nn.add %11, %12#0 : tensor<200x40xf32>
  return %0, %4, %5#0, %5#1, %7, %8, %9, %13, %12#1 : tensor<6x1024xf32>, tensor<3xf32>, tensor<8x150xf32>, tensor<8xf32>, tensor<70x40xf32>, tensor<150x8xf32>, tensor<40xf32>, tensor<200x40xf32>, tensor<200xf32>
}
}
