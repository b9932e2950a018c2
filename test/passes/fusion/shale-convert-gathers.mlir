// RUN: shale-opt %s --shale-convert-gathers --split-input-file | FileCheck %s

dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
// CHECK-LABEL: @gather
func.func @gather(%shard: tensor<16xf32>) -> tensor<4x8xbf16> {
  // CHECK: %[[C:.*]] = nn.cast %{{.*}} : tensor<16xf32> -> tensor<16xbf16>
  // CHECK: dist.unit_gather %[[C]] @u[0] over "fsdp" : tensor<16xbf16> -> tensor<32xbf16>
  %0 = dist.unit_gather %shard @u[0] over "fsdp" : tensor<16xf32> -> tensor<32xbf16>
  %1 = dist.unit_view %0 @u[0] @w : tensor<32xbf16> -> tensor<4x8xbf16>
  return %1 : tensor<4x8xbf16>
}

// -----

// With one rank only the cast remains.
dist.mesh @mesh <[shard "fsdp"=1]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
// CHECK-LABEL: @alone
func.func @alone(%shard: tensor<32xf32>) -> tensor<4x8xbf16> {
  // CHECK: %[[C:.*]] = nn.cast
  // CHECK-NOT: unit_gather
  // CHECK: dist.unit_view %[[C]]
  %0 = dist.unit_gather %shard @u[0] over "fsdp" : tensor<32xf32> -> tensor<32xbf16>
  %1 = dist.unit_view %0 @u[0] @w : tensor<32xbf16> -> tensor<4x8xbf16>
  return %1 : tensor<4x8xbf16>
}

// -----

// A module that keeps the collectives of one rank gathers what was cast.
module attributes {dist.keep_single_rank} {
dist.mesh @mesh <[shard "fsdp"=1]>
dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>]>]
// CHECK-LABEL: @kept
func.func @kept(%shard: tensor<32xf32>) -> tensor<32xbf16> {
  // CHECK: %[[C:.*]] = nn.cast
  // CHECK: dist.unit_gather %[[C]] @u[0] over "fsdp" : tensor<32xbf16> -> tensor<32xbf16>
  %0 = dist.unit_gather %shard @u[0] over "fsdp" : tensor<32xf32> -> tensor<32xbf16>
  return %0 : tensor<32xbf16>
}
}
