// The place at which copies between memories start.
// RUN: shale-opt %s --shale-annotate-offload=offload=params,optimizer --shale-materialize-offload -o %t.mlir
// RUN: shale-opt %t.mlir --shale-stage-schedule --shale-verify-scheduled | FileCheck %s
// RUN: shale-opt %t.mlir --shale-stage-schedule=prefetch=0 | FileCheck %s --check-prefix=LAZY
// RUN: shale-opt %t.mlir --shale-stage-schedule=max-gathers-in-flight=3 | FileCheck %s --check-prefix=THREE

dist.mesh @mesh <[shard "fsdp"=2]>
dist.unit @a on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wa, offset = 0, shape = [4, 4]>]>]
dist.unit @b on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wb, offset = 0, shape = [4, 4]>]>]
dist.unit @c on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 16, segments = [#dist.segment<@wc, offset = 0, shape = [4, 4]>]>]
nn.state @wa role = param type = tensor<4x4xf32>
nn.state @wb role = param type = tensor<4x4xf32>
nn.state @wc role = param type = tensor<4x4xf32>
nn.state @fa role = param type = tensor<16xf32> {dist.group = 0 : i64, dist.unit = @a}
nn.state @fb role = param type = tensor<16xf32> {dist.group = 0 : i64, dist.unit = @b}
nn.state @fc role = param type = tensor<16xf32> {dist.group = 0 : i64, dist.unit = @c}
nn.state @ma role = moment("momentum") type = tensor<16xf32> {of = @fa, dist.group = 0 : i64, dist.unit = @a}
nn.state @mb role = moment("momentum") type = tensor<16xf32> {of = @fb, dist.group = 0 : i64, dist.unit = @b}

// Units that are read whole are copied one ahead of use. With two at most, the third starts after the last reader of the first.
// CHECK-LABEL: func.func @step
// CHECK: mem.start %arg1
// CHECK: mem.start %arg2
// CHECK: mem.wait
// CHECK: nn.matmul
// CHECK-NEXT: mem.start %arg3
// CHECK: mem.wait
// CHECK: nn.matmul
// With three, it starts when the program waits for the second.
// THREE-LABEL: func.func @step
// THREE: mem.start %arg1
// THREE: mem.start %arg2
// THREE: mem.wait
// THREE: nn.matmul
// THREE: mem.start %arg3
// THREE: mem.wait
// LAZY-LABEL: func.func @step
// LAZY: mem.start %arg1
// LAZY-NEXT: mem.wait
// LAZY: nn.matmul
// LAZY: mem.start %arg2
// LAZY-NEXT: mem.wait
// LAZY: nn.matmul
// LAZY: mem.start %arg3
// LAZY-NEXT: mem.wait

// The update runs on the host, one bucket after the other. The copy of the first gradient starts while ranks exchange the norm, the
// second copy before the wait for the first.
// CHECK: dist.start
// CHECK-NOT: dist.wait
// CHECK: mem.start %{{.*}} to host
// CHECK: dist.wait
// CHECK: mem.start %{{.*}} to host
// CHECK: mem.wait
// CHECK: nn.sgd
// CHECK: mem.wait
// CHECK: nn.sgd
// LAZY: dist.wait
// LAZY: to host
// LAZY-NEXT: mem.wait
// LAZY: nn.sgd
// LAZY: to host
// LAZY-NEXT: mem.wait
// LAZY: nn.sgd
func.func @step(%x: tensor<4x4xf32>, %fa: tensor<16xf32> {nn.state = @fa}, %fb: tensor<16xf32> {nn.state = @fb}, %fc: tensor<16xf32> {nn.state = @fc},
                %ma: tensor<16xf32> {nn.state = @ma}, %mb: tensor<16xf32> {nn.state = @mb}, %enable: tensor<i1>)
    -> (tensor<16xf32> {nn.state = @fa}, tensor<16xf32> {nn.state = @ma}, tensor<16xf32> {nn.state = @fb}, tensor<16xf32> {nn.state = @mb}) {
  %wa = dist.unit_view %fa @a[0] @wa {nn.phase = #nn.phase<forward>} : tensor<16xf32> -> tensor<4x4xf32>
  %0 = nn.matmul %x, %wa {nn.phase = #nn.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %wb = dist.unit_view %fb @b[0] @wb {nn.phase = #nn.phase<forward>} : tensor<16xf32> -> tensor<4x4xf32>
  %1 = nn.matmul %0, %wb {nn.phase = #nn.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %wc = dist.unit_view %fc @c[0] @wc {nn.phase = #nn.phase<forward>} : tensor<16xf32> -> tensor<4x4xf32>
  %2 = nn.matmul %1, %wc {nn.phase = #nn.phase<forward>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %ga = nn.reshape %2 {nn.phase = #nn.phase<backward>} : tensor<4x4xf32> -> tensor<16xf32>
  %gb = nn.neg %ga {nn.phase = #nn.phase<backward>} : tensor<16xf32>
  %n = nn.sum_squares %ga, %gb {nn.phase = #nn.phase<update>} : (tensor<16xf32>, tensor<16xf32>) -> tensor<f32>
  %s = dist.all_reduce sum %n over "fsdp" {nn.phase = #nn.phase<update>} : tensor<f32>
  %a:2 = nn.sgd %fa, %ga, %ma enable %enable scale %s lr %s momentum %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<16xf32>, tensor<f32>
  %b:2 = nn.sgd %fb, %gb, %mb enable %enable scale %s lr %s momentum %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<16xf32>, tensor<f32>
  return %a#0, %a#1, %b#0, %b#1 : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}

// A copy without a reader is removed.
// CHECK-LABEL: func.func @unread
// CHECK-NEXT: return
func.func @unread(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = mem.offload %x : tensor<16xf32>
  %1 = mem.reload %0 : tensor<16xf32>
  return %x : tensor<16xf32>
}
