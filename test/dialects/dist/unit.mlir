// RUN: shale-opt %s --verify-roundtrip | FileCheck %s

dist.mesh @mesh <[shard "fsdp"=2]>
// CHECK: dist.unit @h.0 on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 50, segments = [#dist.segment<@w, offset = 0, shape = [4, 8]>, #dist.segment<@b, offset = 32, shape = [17], factors = #nn.update_factors<decay = 0.000000e+00>>]>]
dist.unit @h.0 on @mesh["fsdp"] groups = [
  #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 50, segments = [
    #dist.segment<@w, offset = 0, shape = [4, 8]>,
    #dist.segment<@b, offset = 32, shape = [17], factors = #nn.update_factors<decay = 0.0>>]>]

func.func @use(%shard: tensor<25xf32>) -> tensor<25xf32> {
  // CHECK: dist.unit_gather %{{.*}} @h.0[0] over "fsdp" : tensor<25xf32> -> tensor<50xf32>
  %0 = dist.unit_gather %shard @h.0[0] over "fsdp" : tensor<25xf32> -> tensor<50xf32>
  // CHECK: dist.unit_view %{{.*}} @h.0[0] @w : tensor<50xf32> -> tensor<4x8xf32>
  %1 = dist.unit_view %0 @h.0[0] @w : tensor<50xf32> -> tensor<4x8xf32>
  // CHECK: dist.unit_pack @h.0[0] [@w](%{{.*}}) : (tensor<4x8xf32>) -> tensor<50xf32>
  %2 = dist.unit_pack @h.0[0] [@w](%1) : (tensor<4x8xf32>) -> tensor<50xf32>
  %3 = dist.reduce_scatter sum %2 over "fsdp" dim = 0 : tensor<50xf32> -> tensor<25xf32>
  return %3 : tensor<25xf32>
}

// State with another shape than its parameter: this group has a segment of the parameter, too.
// CHECK: dist.unit @h.1 on @mesh["fsdp"] groups = [{{.*}}, #dist.group<"f32.m", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 12, segments = [#dist.segment<@v, offset = 0, shape = [12]>], slot = "m">]
dist.unit @h.1 on @mesh["fsdp"] groups = [
  #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [
    #dist.segment<@v, offset = 0, shape = [4, 8]>]>,
  #dist.group<"f32.m", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 12, segments = [
    #dist.segment<@v, offset = 0, shape = [12]>], slot = "m">]

// A gather of blocks of 8-bit integers, and of the words in which they are sent.
dist.unit @q on @mesh["fsdp"] groups = [
  #dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 1024, segments = [
    #dist.segment<@u, offset = 0, shape = [30, 20]>]>]
func.func @quantized(%shard: tensor<512xf32>, %words: tensor<130xi32>) {
  // CHECK: dist.unit_gather %{{.*}} @q[0] over "fsdp" as int8 : tensor<512xf32> -> tensor<1024xbf16>
  %0 = dist.unit_gather %shard @q[0] over "fsdp" as int8 : tensor<512xf32> -> tensor<1024xbf16>
  // CHECK: dist.unit_gather %{{.*}} @q[0] over "fsdp" as int8 : tensor<130xi32> -> tensor<260xi32>
  %1 = dist.unit_gather %words @q[0] over "fsdp" as int8 : tensor<130xi32> -> tensor<260xi32>
  return
}

// How a group is stored.
// CHECK: storage = <gathered f32 rest = "fsdp" update = "fsdp" sums = "fsdp" gather = int8 steps = [#dist.reduction_step<["fsdp"] scatter as int8>]>>]
dist.unit @s on @mesh["fsdp"] groups = [
  #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 512, segments = [#dist.segment<@s.w, offset = 0, shape = [512]>]
    storage = <gathered f32 rest = "fsdp" update = "fsdp" sums = "fsdp" gather = int8 steps = [#dist.reduction_step<["fsdp"] scatter as int8>]>>]
// CHECK: storage = <stored bf16 steps = [#dist.reduction_step<["fsdp", "more"]>]>>]
dist.unit @t on @mesh["fsdp"] groups = [
  #dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 512, segments = [#dist.segment<@t.w, offset = 0, shape = [512]>]
    storage = <stored bf16 steps = [#dist.reduction_step<["fsdp", "more"]>]>>]
