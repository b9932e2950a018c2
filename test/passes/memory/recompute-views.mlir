// A reshaped part of a unit does not keep the unit gathered: the backward pass views the part again.
// RUN: shale-opt %s --shale-materialize-recompute --shale-verify-memory -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: shale-run %s --ranks=2 --compare=%t.mlir --exact | FileCheck %s --check-prefix=EQUAL
// EQUAL: 0 differ in their bits

dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wa, offset = 0, shape = [32]>]>]
dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wb, offset = 0, shape = [32]>]>]
dist.unit @c on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 32, segments = [#dist.segment<@wc, offset = 0, shape = [32]>]>]
// CHECK-LABEL: func.func @step
// CHECK: %[[A:.*]] = dist.unit_gather %[[S:.*]] @a[0]
// CHECK: dist.unit_gather %{{.*}} @b[0]
// CHECK: dist.unit_gather %{{.*}} @c[0]
// CHECK: %[[B:.*]] = mem.barrier %[[S]] {nn.phase = #backward} : tensor<16xf32>
// CHECK: %[[A2:.*]] = dist.unit_gather %[[B]] @a[0]
// CHECK: %[[V:.*]] = dist.unit_view %[[A2]] @a[0] @wa
// CHECK: %[[R:.*]] = nn.reshape %[[V]] {{.*}}: tensor<32xf32> -> tensor<4x8xf32>
// CHECK: nn.sub %{{.*}}, %[[R]]
func.func @step(%x: tensor<4x8xf32>, %a: tensor<16xf32>, %b: tensor<16xf32>, %c: tensor<16xf32>) -> tensor<4x8xf32> {
  %ga = dist.unit_gather %a @a[0] over "fsdp" {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<16xf32> -> tensor<32xf32>
  %va = dist.unit_view %ga @a[0] @wa {nn.phase = #nn.phase<forward>} : tensor<32xf32> -> tensor<32xf32>
  %ra = nn.reshape %va {nn.phase = #nn.phase<forward>} : tensor<32xf32> -> tensor<4x8xf32>
  %0 = nn.add %x, %ra {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %gb = dist.unit_gather %b @b[0] over "fsdp" {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<16xf32> -> tensor<32xf32>
  %vb = dist.unit_view %gb @b[0] @wb {nn.phase = #nn.phase<forward>} : tensor<32xf32> -> tensor<32xf32>
  %rb = nn.reshape %vb {nn.phase = #nn.phase<forward>} : tensor<32xf32> -> tensor<4x8xf32>
  %1 = nn.add %0, %rb {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %gc = dist.unit_gather %c @c[0] over "fsdp" {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<16xf32> -> tensor<32xf32>
  %vc = dist.unit_view %gc @c[0] @wc {nn.phase = #nn.phase<forward>} : tensor<32xf32> -> tensor<32xf32>
  %rc = nn.reshape %vc {nn.phase = #nn.phase<forward>} : tensor<32xf32> -> tensor<4x8xf32>
  %4 = nn.mul %1, %rc {nn.phase = #nn.phase<forward>} : tensor<4x8xf32>
  %5 = nn.mul %4, %rc {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %2 = nn.mul %5, %rb {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %3 = nn.sub %2, %ra {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}
