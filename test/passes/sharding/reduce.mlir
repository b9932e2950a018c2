// RUN: sed 's/STRATEGY/dist.strategy = #dist.strategy<full>/' %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units --split-input-file | FileCheck %s --check-prefixes=CHECK,EACH
// RUN: sed 's/STRATEGY/dist.strategy = #dist.strategy<full>, dist.reduce_once/' %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units --split-input-file | FileCheck %s --check-prefixes=CHECK,ONCE

// A cast of a gradient before its update becomes a cast of the parts of the flat group, which is reduced in bf16 as a whole.
module attributes {STRATEGY} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<8x8xf32> {unit = "u"}
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}

// CHECK-LABEL: func.func @step
// CHECK-NOT: all_reduce
// CHECK: %[[G:.*]] = nn.matmul {{.*}} transpose_lhs {{.*}} -> tensor<8x8xf32>
// CHECK: %[[R:.*]] = nn.cast %[[G]] {{.*}} : tensor<8x8xf32> -> tensor<8x8xbf16>
// CHECK: %[[P:.*]] = dist.unit_pack @u[0] [@w](%[[R]]) {{.*}} -> tensor<64xbf16>
// CHECK: dist.reduce_scatter sum %[[P]] over "fsdp" {{.*}} : tensor<64xbf16> -> tensor<32xbf16>
func.func @step(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w: tensor<8x8xf32> {nn.state = @w},
                %v: tensor<8x8xf32> {nn.state = @v}, %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"},
                %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<8x8xf32> {nn.state = @w}, tensor<8x8xf32> {nn.state = @v}) {
  %y = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %g = nn.matmul %x, %y transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %r = nn.cast %g {nn.phase = #nn.phase<backward>} : tensor<8x8xf32> -> tensor<8x8xbf16>
  %p, %v1 = nn.sgd %w, %r, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8x8xf32> grad tensor<8x8xbf16> state tensor<8x8xf32>, tensor<f32>
  return %p, %v1 : tensor<8x8xf32>, tensor<8x8xf32>
}
}

// -----

// Micro-batches are added in f32: reduced slices, or whole sums, which are rounded when they are complete.
module attributes {STRATEGY, nn.accumulate = 2 : i64} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<8x8xf32> {unit = "u"}
nn.state @v role = moment("momentum") type = tensor<8x8xf32> {of = @w}
nn.state @a role = grad_accumulator type = tensor<8x8xf32> {of = @w}

// EACH: nn.state @u.f32.reduced.bf16.grad_accumulator role = grad_accumulator type = tensor<64xf32> {dist.axis = "fsdp"
// ONCE: nn.state @u.f32.reduced.bf16.grad_accumulator role = grad_accumulator type = tensor<64xf32> {dist.group
// CHECK-LABEL: func.func @accumulate_first
// EACH: %[[S:.*]] = dist.reduce_scatter sum {{.*}} : tensor<64xbf16> -> tensor<32xbf16>
// EACH: %[[F:.*]] = nn.cast %[[S]] {{.*}} : tensor<32xbf16> -> tensor<32xf32>
// EACH: return %[[F]]
// ONCE-NOT: nn.cast
// ONCE: %[[F:.*]] = dist.unit_pack @u[0] [@w](%{{.*}}) {{.*}} : (tensor<8x8xf32>) -> tensor<64xf32>
// ONCE: return %[[F]]
func.func @accumulate_first(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w: tensor<8x8xf32> {nn.state = @w},
                            %a: tensor<8x8xf32> {nn.state = @a}) -> (tensor<8x8xf32> {nn.state = @a}) {
  %y = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %g = nn.matmul %x, %y transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %all = nn.accumulate @w %g {nn.phase = #nn.phase<backward>} : tensor<8x8xf32>
  return %all : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @step
// CHECK-NOT: all_reduce
// EACH: %[[R:.*]] = nn.cast {{.*}} : tensor<8x8xf32> -> tensor<8x8xbf16>
// EACH: dist.unit_pack @u[0] [@w](%[[R]]) {{.*}} -> tensor<64xbf16>
// EACH: %[[S:.*]] = dist.reduce_scatter sum {{.*}} : tensor<64xbf16> -> tensor<32xbf16>
// EACH: %[[F:.*]] = nn.cast %[[S]] {{.*}} : tensor<32xbf16> -> tensor<32xf32>
// EACH: %[[SUM:.*]] = nn.add %{{.*}}, %[[F]] {{.*}} : tensor<32xf32>
// EACH: nn.sgd %{{.*}}, %[[SUM]], {{.*}} : tensor<32xf32>, tensor<f32>
// ONCE: %[[P:.*]] = dist.unit_pack {{.*}} -> tensor<64xf32>
// ONCE: %[[SUM:.*]] = nn.add %{{.*}}, %[[P]] {{.*}} : tensor<64xf32>
// ONCE: %[[R:.*]] = nn.cast %[[SUM]] {{.*}} : tensor<64xf32> -> tensor<64xbf16>
// ONCE: %[[S:.*]] = dist.reduce_scatter sum %[[R]] {{.*}} -> tensor<32xbf16>
// ONCE: nn.sgd %{{.*}}, %[[S]], {{.*}} : tensor<32xf32> grad tensor<32xbf16>
func.func @step(%x: tensor<4x8xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64}, %w: tensor<8x8xf32> {nn.state = @w},
                %v: tensor<8x8xf32> {nn.state = @v}, %a: tensor<8x8xf32> {nn.state = @a}, %h: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"},
                %e: tensor<i1> {nn.role = #nn.role<input>, nn.name = "e"})
    -> (tensor<8x8xf32> {nn.state = @w}, tensor<8x8xf32> {nn.state = @v}) {
  %y = nn.matmul %x, %w {nn.phase = #nn.phase<forward>} : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %g = nn.matmul %x, %y transpose_lhs {nn.phase = #nn.phase<backward>} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %all = nn.accumulate @w %g into %a : tensor<8x8xf32> {nn.phase = #nn.phase<backward>} : tensor<8x8xf32>
  %r = nn.cast %all {nn.phase = #nn.phase<backward>} : tensor<8x8xf32> -> tensor<8x8xbf16>
  %p, %v1 = nn.sgd %w, %r, %v enable %e scale %h lr %h momentum %h weight_decay %h {nn.phase = #nn.phase<update>} : tensor<8x8xf32> grad tensor<8x8xbf16> state tensor<8x8xf32>, tensor<f32>
  return %p, %v1 : tensor<8x8xf32>, tensor<8x8xf32>
}
}
