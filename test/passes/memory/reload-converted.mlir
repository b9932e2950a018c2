// A shard that is cast between its reload and its gather is reloaded for each interval of use: it does not stay on the
// device from forward to backward.
// RUN: shale-opt %s --shale-materialize-recompute --shale-annotate-offload=offload=params --shale-materialize-offload --shale-verify-memory --shale-convert-gathers -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: shale-opt %t.mlir --shale-stage-schedule --shale-verify-scheduled | FileCheck %s --check-prefix=SCHEDULE

module attributes {dist.strategy = #dist.strategy<full>} {
dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wa, offset = 0, shape = [4, 4]>]>]
dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wb, offset = 0, shape = [4, 4]>]>]
dist.unit @c on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = bf16, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wc, offset = 0, shape = [4, 4]>]>]
nn.state @wa role = param type = tensor<4x4xf32>
nn.state @wb role = param type = tensor<4x4xf32>
nn.state @wc role = param type = tensor<4x4xf32>
nn.state @fa role = param type = tensor<16xf32> {dist.unit = @a, dist.group = 0 : i64, dist.axis = "fsdp"}
nn.state @fb role = param type = tensor<16xf32> {dist.unit = @b, dist.group = 0 : i64, dist.axis = "fsdp"}
nn.state @fc role = param type = tensor<16xf32> {dist.unit = @c, dist.group = 0 : i64, dist.axis = "fsdp"}

// CHECK-LABEL: func.func @step
// CHECK: %[[R1:.*]] = mem.reload %arg1
// CHECK: %[[C1:.*]] = nn.cast %[[R1]]
// CHECK: dist.unit_gather %[[C1]] @a[0]
// CHECK: mem.reload %arg2
// CHECK: mem.reload %arg3
// CHECK: %[[R2:.*]] = mem.reload %arg1
// CHECK: %[[C2:.*]] = nn.cast %[[R2]]
// CHECK: dist.unit_gather %[[C2]] @a[0]
// Each copy is read once, by its cast.
// SCHEDULE-LABEL: func.func @step
// SCHEDULE: %[[P1:.*]] = mem.start %arg1
// SCHEDULE: %[[W1:.*]] = mem.wait %[[P1]]
// SCHEDULE: nn.cast %[[W1]]
// SCHEDULE-NOT: %[[W1]]{{[^0-9]}}
// SCHEDULE: %[[P2:.*]] = mem.start %arg1
// SCHEDULE: %[[W2:.*]] = mem.wait %[[P2]]
// SCHEDULE: nn.cast %[[W2]]
// SCHEDULE-NOT: %[[W2]]{{[^0-9]}}
// SCHEDULE: return
func.func @step(%x: tensor<4x4xbf16>, %fa: tensor<8xf32> {nn.state = @fa}, %fb: tensor<8xf32> {nn.state = @fb}, %fc: tensor<8xf32> {nn.state = @fc}) -> tensor<4x4xbf16> {
  %ga = dist.unit_gather %fa @a[0] over "fsdp" {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<16xbf16>
  %gb = dist.unit_gather %fb @b[0] over "fsdp" {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<16xbf16>
  %gc = dist.unit_gather %fc @c[0] over "fsdp" {mem.recompute, nn.phase = #nn.phase<forward>} : tensor<8xf32> -> tensor<16xbf16>
  %wa = dist.unit_view %ga @a[0] @wa {nn.phase = #nn.phase<forward>} : tensor<16xbf16> -> tensor<4x4xbf16>
  %wb = dist.unit_view %gb @b[0] @wb {nn.phase = #nn.phase<forward>} : tensor<16xbf16> -> tensor<4x4xbf16>
  %wc = dist.unit_view %gc @c[0] @wc {nn.phase = #nn.phase<forward>} : tensor<16xbf16> -> tensor<4x4xbf16>
  %0 = nn.matmul %x, %wa {nn.phase = #nn.phase<forward>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %1 = nn.matmul %0, %wb {nn.phase = #nn.phase<forward>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %2 = nn.matmul %1, %wc {nn.phase = #nn.phase<forward>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %3 = nn.matmul %2, %wb {nn.phase = #nn.phase<backward>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  %4 = nn.matmul %3, %wa {nn.phase = #nn.phase<backward>} : (tensor<4x4xbf16>, tensor<4x4xbf16>) -> tensor<4x4xbf16>
  return %4 : tensor<4x4xbf16>
}
}
