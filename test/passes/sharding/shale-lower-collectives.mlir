// Maxima over ranks become a gather and a local maximum; sums stay. Other collectives work along the first dimension.
// RUN: shale-opt %s --split-input-file --shale-lower-collectives | FileCheck %s
// RUN: shale-opt %s --split-input-file --shale-lower-collectives --shale-verify-collectives -o /dev/null

dist.mesh @mesh <[replica "replica"=3, shard "fsdp"=2]>
// CHECK-LABEL: func.func @matrix
// CHECK-SAME: (%[[A:.*]]: tensor<4x6xf32>)
// CHECK-NEXT: %[[PART:.*]] = nn.reshape %[[A]] : tensor<4x6xf32> -> tensor<1x4x6xf32>
// CHECK-NEXT: %[[PARTS:.*]] = dist.all_gather %[[PART]] over "replica" dim = 0 : tensor<1x4x6xf32> -> tensor<3x4x6xf32>
// CHECK-NEXT: %[[MAX:.*]] = nn.reduce max %[[PARTS]] dims = [0] : tensor<3x4x6xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %[[SUM:.*]] = dist.all_reduce sum %[[MAX]] over "fsdp"
// CHECK-NEXT: return %[[SUM]]
func.func @matrix(%a: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = dist.all_reduce max %a over "replica" : tensor<4x6xf32>
  %1 = dist.all_reduce sum %0 over "fsdp" : tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// -----

// Over two axes, one after the other.
dist.mesh @mesh <[replica "replica"=3, shard "fsdp"=2]>
// CHECK-LABEL: func.func @scalar
// CHECK-NEXT: nn.reshape %{{.*}} : tensor<i64> -> tensor<1xi64>
// CHECK-NEXT: dist.all_gather %{{.*}} over "fsdp" dim = 0 : tensor<1xi64> -> tensor<2xi64>
// CHECK-NEXT: %[[FIRST:.*]] = nn.reduce max %{{.*}} dims = [0] : tensor<2xi64> -> tensor<i64>
// CHECK-NEXT: nn.reshape %[[FIRST]] : tensor<i64> -> tensor<1xi64>
// CHECK-NEXT: dist.all_gather %{{.*}} over "replica" dim = 0 : tensor<1xi64> -> tensor<3xi64>
// CHECK-NEXT: nn.reduce max
func.func @scalar(%a: tensor<i64>) -> tensor<i64> {
  %0 = dist.all_reduce max %a over "fsdp" : tensor<i64>
  %1 = dist.all_reduce max %0 over "replica" : tensor<i64>
  return %1 : tensor<i64>
}

// -----

// A maximum of 16-bit floats is computed in f32, as nn.reduce does, and is one of the elements.
dist.mesh @mesh <[shard "fsdp"=2]>
// CHECK-LABEL: func.func @narrow
// CHECK: dist.all_gather %{{.*}} : tensor<1x5xbf16> -> tensor<2x5xbf16>
// CHECK-NEXT: %[[WIDE:.*]] = nn.reduce max %{{.*}} dims = [0] : tensor<2x5xbf16> -> tensor<5xf32>
// CHECK-NEXT: nn.cast %[[WIDE]] : tensor<5xf32> -> tensor<5xbf16>
func.func @narrow(%a: tensor<5xbf16>) -> tensor<5xbf16> {
  %0 = dist.all_reduce max %a over "fsdp" : tensor<5xbf16>
  return %0 : tensor<5xbf16>
}

// -----

// A module without ranks has no maxima over them.
// CHECK-LABEL: func.func @alone
// CHECK-NEXT: return
func.func @alone(%a: tensor<f32>) -> tensor<f32> {
  return %a : tensor<f32>
}

// -----

dist.mesh @mesh <[shard "fsdp"=2]>
// CHECK-LABEL: func.func @dimensions
// CHECK-SAME: (%[[A:.*]]: tensor<4x6xf32>)
// CHECK: %[[T:.*]] = nn.transpose %[[A]] perm = [1, 0] {nn.phase = #forward} : tensor<4x6xf32> -> tensor<6x4xf32>
// CHECK: %[[G:.*]] = dist.all_gather %[[T]] over "fsdp" dim = 0 {nn.phase = #forward} : tensor<6x4xf32> -> tensor<12x4xf32>
// CHECK: nn.transpose %[[G]] perm = [1, 0] {nn.phase = #forward} : tensor<12x4xf32> -> tensor<4x12xf32>
// CHECK: %[[T:.*]] = nn.transpose %[[A]]
// CHECK: %[[S:.*]] = dist.reduce_scatter sum %[[T]] over "fsdp" dim = 0 : tensor<6x4xf32> -> tensor<3x4xf32>
// CHECK: nn.transpose %[[S]] perm = [1, 0] : tensor<3x4xf32> -> tensor<4x3xf32>
// CHECK: %[[T:.*]] = nn.transpose %[[A]]
// CHECK: dist.slice %[[T]] over "fsdp" dim = 0 : tensor<6x4xf32> -> tensor<3x4xf32>
// CHECK: %[[G:.*]] = dist.all_gather %[[A]] over "fsdp" dim = 0 : tensor<4x6xf32> -> tensor<8x6xf32>
// CHECK: %[[T:.*]] = nn.transpose %[[G]] perm = [1, 0] : tensor<8x6xf32> -> tensor<6x8xf32>
// CHECK: %[[S:.*]] = dist.slice %[[T]] over "fsdp" dim = 0 : tensor<6x8xf32> -> tensor<3x8xf32>
// CHECK: nn.transpose %[[S]] perm = [1, 0] : tensor<3x8xf32> -> tensor<8x3xf32>
func.func @dimensions(%a: tensor<4x6xf32>) -> (tensor<4x12xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<8x3xf32>) {
  %0 = dist.all_gather %a over "fsdp" dim = 1 {nn.phase = #nn.phase<forward>} : tensor<4x6xf32> -> tensor<4x12xf32>
  %1 = dist.reduce_scatter sum %a over "fsdp" dim = 1 : tensor<4x6xf32> -> tensor<4x3xf32>
  %2 = dist.slice %a over "fsdp" dim = 1 : tensor<4x6xf32> -> tensor<4x3xf32>
  %3 = dist.all_to_all %a over "fsdp" split = 1 concat = 0 : tensor<4x6xf32> -> tensor<8x3xf32>
  return %0, %1, %2, %3 : tensor<4x12xf32>, tensor<4x3xf32>, tensor<4x3xf32>, tensor<8x3xf32>
}
