// RUN: shale-opt %s --shale-materialize-recompute --shale-verify-memory | FileCheck %s
// RUN: not shale-opt %s --shale-verify-memory 2>&1 | FileCheck %s --check-prefix=BEFORE

// Used forward a, b, c, then backward c, b, a: c is one interval, b spans only c
// and stays, a is gathered again behind a barrier.
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]] = dist.unit_gather %[[SA:.*]] @a[0]
// CHECK: dist.unit_view %[[A]] @a[0] @wa
// CHECK: dist.unit_gather %{{.*}} @b[0]
// CHECK: dist.unit_gather %{{.*}} @c[0]
// CHECK-NOT: dist.unit_gather %{{.*}} @b[0]
// CHECK: %[[S:.*]] = mem.barrier %[[SA]] : tensor<16xf32>
// CHECK: %[[A2:.*]] = dist.unit_gather %[[S]] @a[0]
// CHECK: %[[V:.*]] = dist.unit_view %[[A2]] @a[0] @wa
// CHECK: nn.sub %{{.*}}, %[[V]]
// BEFORE: group 0 of unit 'a' is gathered 1 times in @step, expected 2
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wa, offset = 0, shape = [32]>]>]
dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wb, offset = 0, shape = [32]>]>]
dist.unit @c on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wc, offset = 0, shape = [32]>]>]
func.func @step(%x: tensor<32xf32>, %a: tensor<16xf32>, %b: tensor<16xf32>, %c: tensor<16xf32>) -> tensor<32xf32> {
  %ga = dist.unit_gather %a @a[0] over "fsdp" {mem.recompute} : tensor<16xf32> -> tensor<32xf32>
  %va = dist.unit_view %ga @a[0] @wa : tensor<32xf32> -> tensor<32xf32>
  %0 = nn.add %x, %va : tensor<32xf32>
  %gb = dist.unit_gather %b @b[0] over "fsdp" {mem.recompute} : tensor<16xf32> -> tensor<32xf32>
  %vb = dist.unit_view %gb @b[0] @wb : tensor<32xf32> -> tensor<32xf32>
  %1 = nn.add %0, %vb : tensor<32xf32>
  %gc = dist.unit_gather %c @c[0] over "fsdp" {mem.recompute} : tensor<16xf32> -> tensor<32xf32>
  %vc = dist.unit_view %gc @c[0] @wc : tensor<32xf32> -> tensor<32xf32>
  %2 = nn.add %1, %vc : tensor<32xf32>
  %3 = nn.sub %2, %vc : tensor<32xf32>
  %4 = nn.sub %3, %vb : tensor<32xf32>
  %5 = nn.sub %4, %va : tensor<32xf32>
  return %5 : tensor<32xf32>
}
