// RUN: shale-opt %s --shale-autodiff --shale-verify-step | FileCheck %s
// RUN: shale-opt %s --shale-autodiff=optimizer=sgd --shale-verify-step | FileCheck %s --check-prefix=SGD
// RUN: shale-opt %s --shale-autodiff=accumulate=3 --shale-verify-step | FileCheck %s --check-prefix=SUMS
// RUN: shale-opt %s --shale-autodiff=accumulate=2 --shale-verify-step | FileCheck %s --check-prefix=TWO

// A tied table and a frozen bias: two parameters are trained, with one gradient each.
nn.state @wte role = param type = tensor<8x4xf32> {factors = #nn.update_factors<decay = 0.0>}
nn.state @w role = param type = tensor<4x4xf32>
nn.state @b role = param type = tensor<4xf32> {trained = false}

// CHECK: nn.state @wte.moment1 role = moment("moment1") type = tensor<8x4xf32> {of = @wte}
// CHECK: nn.state @w.moment1
// CHECK-NOT: nn.state @b.moment1
// CHECK: nn.state @w.moment2 role = moment("moment2") type = tensor<4x4xf32> {of = @w}
// SGD: nn.state @wte.momentum role = moment("momentum") type = tensor<8x4xf32> {of = @wte}
// SGD-NOT: moment1

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[IDS:arg0]]: tensor<2x3xi64>
// CHECK-SAME: %[[WTE:arg2]]: tensor<8x4xf32> {nn.state = @wte}
// CHECK-SAME: tensor<8x4xf32> {nn.state = @wte.moment1}, %{{.*}}: tensor<4x4xf32> {nn.state = @w.moment1}, %{{.*}}: tensor<8x4xf32> {nn.state = @wte.moment2}
// CHECK-SAME: {nn.name = "lr", nn.role = #nn.role<hyper>}
// CHECK-SAME: {nn.name = "clip_grad_norm", nn.role = #nn.role<hyper>}, %[[LIMIT:[a-z0-9]+]]: tensor<f32> {nn.name = "norm_limit", nn.role = #nn.role<hyper>})
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss", nn.role = #nn.role<metric>}, tensor<f32> {nn.name = "grad_norm", nn.role = #nn.role<metric>}, tensor<i1> {nn.name = "enable", nn.role = #nn.role<metric>}, tensor<8x4xf32> {nn.state = @wte}, tensor<4x4xf32> {nn.state = @w},
// CHECK: nn.embedding {{.*}}{nn.phase = #forward, nn.scope = "emb"}
// CHECK: nn.cross_entropy_grad {{.*}}nn.phase = #backward
// The gradient of the frozen bias, a sum over rows, is not computed.
// CHECK-NOT: nn.reduce sum
// CHECK: %[[OUT:.*]] = nn.matmul %{{.*}}, %{{.*}} transpose_lhs {nn.phase = #backward}{{.*}} -> tensor<8x4xf32>
// CHECK: %[[DW:.*]] = nn.matmul {{.*}} -> tensor<4x4xf32>
// CHECK: %[[IN:.*]] = nn.embedding_grad {{.*}}nn.phase = #backward, nn.scope = "emb"
// CHECK: %[[DWTE:.*]] = nn.add %[[OUT]], %[[IN]]
// CHECK: nn.sum_squares %[[DWTE]], %[[DW]] {nn.phase = #update}
// CHECK: %[[NORM:.*]] = nn.sqrt
// A step changes nothing if its norm is above the limit.
// CHECK: %[[FINITE:.*]] = nn.and
// CHECK: %[[WITHIN:.*]] = nn.compare le %[[NORM]], %[[LIMIT]]
// CHECK: %[[ENABLE:.*]] = nn.and %[[FINITE]], %[[WITHIN]]
// CHECK: nn.adamw %[[WTE]], %[[DWTE]], {{.*}} enable %[[ENABLE]] {{.*}} factors <decay = 0.000000e+00>
// CHECK: nn.adamw {{.*}}
// CHECK-NOT: nn.adamw
// SGD: nn.sgd {{.*}} factors <decay = 0.000000e+00>

// CHECK-LABEL: func.func @evaluate
// CHECK-SAME: -> (tensor<f32> {nn.name = "loss_sum", nn.role = #nn.role<metric>}, tensor<f32> {nn.name = "count", nn.role = #nn.role<metric>})
// CHECK-NOT: nn.div
// CHECK-NOT: func.func @forward
// Three micro-batches: gradients are those of the sum of losses, and the update divides them by the count of the step.
// SUMS: module attributes {nn.accumulate = 3 : i64, nn.optimizer = "adamw"}
// SUMS: nn.state @wte.grad_accumulator role = grad_accumulator type = tensor<8x4xf32> {of = @wte}
// SUMS-NOT: @b.grad_accumulator
// SUMS: nn.state @loss_sum.accumulator role = grad_accumulator type = tensor<f32>
// SUMS-LABEL: func.func @accumulate_first
// SUMS-SAME: -> (tensor<8x4xf32> {nn.state = @wte.grad_accumulator}, tensor<4x4xf32> {nn.state = @w.grad_accumulator}, tensor<f32> {nn.state = @loss_sum.accumulator}, tensor<f32> {nn.state = @count.accumulator})
// SUMS: %[[SUM:.*]], %[[COUNT:.*]], %{{.*}} = nn.cross_entropy
// SUMS-NOT: nn.div
// SUMS: %[[G:.*]] = nn.accumulate @wte %{{[0-9]+}} {{.*}}: tensor<8x4xf32>
// SUMS-NOT: into
// SUMS: return %[[G]], %{{.*}}, %[[SUM]], %[[COUNT]]
// SUMS-LABEL: func.func @accumulate(
// SUMS: nn.accumulate @wte %{{.*}} into %{{.*}} : tensor<8x4xf32>
// SUMS: nn.add %{{.*}}, %{{.*}} : tensor<f32>
// SUMS-LABEL: func.func @step
// SUMS: %[[ALL:.*]] = nn.accumulate @wte %{{.*}} into
// SUMS: %[[WHOLE:.*]] = nn.add %{{.*}} {nn.phase = #update} : tensor<f32>
// SUMS: %[[LABELS:.*]] = nn.add %{{.*}} {nn.phase = #update} : tensor<f32>
// SUMS: %[[ATLEAST:.*]] = nn.max %[[LABELS]]
// SUMS: %[[LOSS:.*]] = nn.div %[[WHOLE]], %[[ATLEAST]]
// SUMS: nn.sum_squares %[[ALL]]
// SUMS: %[[NORM:.*]] = nn.div %{{.*}}, %[[ATLEAST]]
// SUMS: %[[SCALE:.*]] = nn.div %{{.*}}, %[[ATLEAST]]
// SUMS: nn.adamw %{{.*}}, %[[ALL]], {{.*}} scale %[[SCALE]]
// SUMS: return %[[LOSS]], %[[NORM]]
// TWO: func.func @accumulate_first
// TWO-NOT: func.func @accumulate(
// TWO: func.func @step
func.func @forward(
    %ids: tensor<2x3xi64> {nn.role = #nn.role<input>, nn.name = "ids"},
    %labels: tensor<2x3xi64> {nn.role = #nn.role<label>, nn.name = "labels"},
    %wte: tensor<8x4xf32> {nn.state = @wte}, %w: tensor<4x4xf32> {nn.state = @w},
    %b: tensor<4xf32> {nn.state = @b}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.embedding %wte, %ids {nn.scope = "emb"} : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %1 = nn.reshape %0 : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %2 = nn.matmul %1, %w {nn.scope = "h.0"} : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %3 = nn.broadcast %b dims = [1] : tensor<4xf32> -> tensor<6x4xf32>
  %4 = nn.add %2, %3 : tensor<6x4xf32>
  %5 = nn.tanh %4 : tensor<6x4xf32>
  %6 = nn.matmul %5, %wte transpose_rhs : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  %7 = nn.reshape %labels : tensor<2x3xi64> -> tensor<6xi64>
  %sum, %count, %lse = nn.cross_entropy %6, %7 ignore_index = -100 : tensor<6x8xf32>, tensor<6xi64>
  %one = nn.constant dense<1.0> : tensor<f32>
  %d = nn.max %count, %one : tensor<f32>
  %loss = nn.div %sum, %d : tensor<f32>
  return %loss, %sum, %count : tensor<f32>, tensor<f32>, tensor<f32>
}
