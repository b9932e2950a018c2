// RUN: shale-opt %s --shale-annotate-offload=offload=all --shale-materialize-offload --shale-verify-memory -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: shale-opt %t.mlir --shale-stage-schedule --shale-verify-scheduled | FileCheck %s --check-prefix=SCHEDULE
// Every copy is needed.
// RUN: %python %S/mutate.py shale-opt %t.mlir "mem\.(?:offload|reload)" "memory; it must be in" | FileCheck %s --check-prefix=MUTANTS
// MUTANTS: 5 of {{.*}}, each is missed

dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 64, segments = []>]
nn.state @a.f32 role = param type = tensor<64xf32> {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @a}
nn.state @a.f32.momentum role = moment("momentum") type = tensor<64xf32> {of = @a.f32, dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @a}

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[A:arg1]]: tensor<32xf32>
// SCHEDULE-LABEL: func.func @step
func.func @step(%x: tensor<64x64xf32>, %a: tensor<32xf32> {nn.state = @a.f32}, %m: tensor<32xf32> {nn.state = @a.f32.momentum},
                %g: tensor<64xf32>, %enable: tensor<i1>, %s: tensor<f32>)
    -> (tensor<32xf32> {nn.state = @a.f32}, tensor<32xf32> {nn.state = @a.f32.momentum}, tensor<64x64xf32>, tensor<f32>) {
  // The shard is reloaded for its gather.
  // CHECK: %[[R:.*]] = mem.reload %[[A]]
  // CHECK: dist.unit_gather %[[R]] @a[0]
  // SCHEDULE: %[[P:.*]] = mem.start %arg1
  // SCHEDULE: %[[S:.*]] = mem.wait %[[P]]
  // SCHEDULE: dist.start %[[S]]
  %w = dist.unit_gather %a @a[0] over "fsdp" {nn.phase = #nn.phase<forward>} : tensor<32xf32> -> tensor<64xf32>
  %c = nn.broadcast %w dims = [0] {nn.phase = #nn.phase<forward>} : tensor<64xf32> -> tensor<64x64xf32>
  // The activation is offloaded at once and reloaded for its first reader. A view of it is created again.
  // CHECK: %[[E:.*]] = nn.exp
  // CHECK-NEXT: %[[H:.*]] = mem.offload %[[E]]
  // SCHEDULE: mem.start %{{.*}} to host {{.*}}64x64
  %0 = nn.exp %c {nn.phase = #nn.phase<forward>} : tensor<64x64xf32>
  %v = nn.reshape %0 {nn.phase = #nn.phase<forward>} : tensor<64x64xf32> -> tensor<64x64xf32>
  %1 = nn.matmul %v, %x {nn.phase = #nn.phase<forward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = nn.matmul %1, %x {nn.phase = #nn.phase<forward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %3 = nn.matmul %2, %x {nn.phase = #nn.phase<backward>} : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  // CHECK: %[[B:.*]] = mem.reload %[[H]]
  // CHECK: %[[V:.*]] = nn.reshape %[[B]]
  // CHECK: nn.mul %{{.*}}, %[[V]]
  %4 = nn.mul %3, %v {nn.phase = #nn.phase<backward>} : tensor<64x64xf32>
  // CHECK: %[[G:.*]] = dist.reduce_scatter
  // CHECK-NEXT: %[[GH:.*]] = mem.offload %[[G]]
  %5 = dist.reduce_scatter sum %g over "fsdp" dim = 0 {nn.phase = #nn.phase<backward>} : tensor<64xf32> -> tensor<32xf32>
  // The sum of its elements and the update run in host memory.
  // The sum, a scalar in host memory, is reloaded like a tensor. The runtime keeps hyper-parameters in both memories.
  // CHECK: %[[Q:.*]] = nn.sum_squares %[[GH]]
  // CHECK-NEXT: mem.reload %[[Q]]
  // CHECK-NEXT: nn.sgd %[[A]], %[[GH]], %arg2
  // CHECK-NOT: mem.
  %6 = nn.sum_squares %5 {nn.phase = #nn.phase<update>} : (tensor<32xf32>) -> tensor<f32>
  %7:2 = nn.sgd %a, %5, %m enable %enable scale %s lr %s momentum %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<32xf32>, tensor<f32>
  return %7#0, %7#1, %4, %6 : tensor<32xf32>, tensor<32xf32>, tensor<64x64xf32>, tensor<f32>
}
