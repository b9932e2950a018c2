// RUN: shale-opt %s --split-input-file --shale-propagate --shale-verify-sharded --shale-partition --shale-materialize-units | FileCheck %s

// State is split over two axes at once: one gather and one reduce-scatter over the joint axis. A gradient that is partial on one of
// them is packed as zeros on all but the first rank of the other.
// CHECK: dist.mesh @mesh <[shard "a"=2, shard "b"=2]> joint ["a+b"]
// CHECK: dist.unit @root on @mesh["a+b"] {{.*}} count = 12, {{.*}} storage = <gathered f32 rest = "a+b" update = "a+b" sums = "a+b" steps = [#dist.reduction_step<["a", "b"] scatter>]>>]
// CHECK: nn.state @root.f32 {{.*}} {dist.axis = "a+b"
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<3xf32> {nn.state = @root.f32}
// CHECK: dist.unit_gather %[[W]] @root[0] over "a+b" {{.*}}: tensor<3xf32> -> tensor<12xf32>
// CHECK: %[[PACK:.*]] = dist.unit_pack
// CHECK: dist.reduce_scatter sum %[[PACK]] over "a+b" dim = 0 : tensor<12xf32> -> tensor<3xf32>
// CHECK: dist.coordinate "a+b"
// CHECK: nn.sgd
module attributes {dist.strategy = #dist.strategy<full>} {
dist.mesh @mesh <[shard "a"=2, shard "b"=2]>
nn.state @w role = param type = tensor<3x3xf32>
nn.state @w.momentum role = moment("momentum") type = tensor<3x3xf32> {of = @w}
func.func @step(%x: tensor<4x3xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<3x3xf32> {nn.state = @w}, %m: tensor<3x3xf32> {nn.state = @w.momentum},
    %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
    -> (tensor<3x3xf32> {nn.state = @w}, tensor<3x3xf32> {nn.state = @w.momentum}) {
  %0 = nn.matmul %x, %w : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %1 = nn.matmul %x, %0 transpose_lhs : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %e = nn.constant dense<true> : tensor<i1>
  %p, %v = nn.sgd %w, %1, %m enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<3x3xf32>, tensor<f32>
  return %p, %v : tensor<3x3xf32>, tensor<3x3xf32>
}
}

// -----

// Axes of one rank are left out.
// CHECK: dist.mesh @mesh <[shard "a"=2, shard "b"=1]>
// CHECK: dist.unit @root on @mesh["a"] {{.*}} steps = [#dist.reduction_step<["a"] scatter>]
// CHECK-LABEL: func.func @step
// CHECK: dist.slice %{{.*}} over "a"
module attributes {dist.strategy = #dist.strategy<grad>} {
dist.mesh @mesh <[shard "a"=2, shard "b"=1]>
nn.state @w role = param type = tensor<4xf32>
nn.state @w.momentum role = moment("momentum") type = tensor<4xf32> {of = @w}
func.func @step(%x: tensor<4xf32>, %w: tensor<4xf32> {nn.state = @w}, %m: tensor<4xf32> {nn.state = @w.momentum}, %lr: tensor<f32>)
    -> (tensor<4xf32> {nn.state = @w}, tensor<4xf32> {nn.state = @w.momentum}) {
  %e = nn.constant dense<true> : tensor<i1>
  %p, %v = nn.sgd %w, %x, %m enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
  return %p, %v : tensor<4xf32>, tensor<4xf32>
}
}

// -----

// Two tensor axes on which gradients are partial are summed by one collective, after the group is packed.
// CHECK: steps = [#dist.reduction_step<["tp", "tq"]>]
// CHECK-LABEL: func.func @step
// CHECK: %[[PACK:.*]] = dist.unit_pack @root[0] [@w](%arg0)
// CHECK: dist.all_reduce sum %[[PACK]] over "tp+tq" : tensor<4xf32>
// CHECK-NOT: dist.all_reduce
module attributes {dist.strategy = #dist.strategy<none>} {
dist.mesh @mesh <[tensor "tp"=2, tensor "tq"=2]> joint ["tp+tq"]
nn.state @w role = param type = tensor<4xf32>
nn.state @w.momentum role = moment("momentum") type = tensor<4xf32> {of = @w}
func.func @step(%x: tensor<4xf32>, %w: tensor<4xf32> {nn.state = @w}, %m: tensor<4xf32> {nn.state = @w.momentum}, %lr: tensor<f32>)
    -> (tensor<4xf32> {nn.state = @w}, tensor<4xf32> {nn.state = @w.momentum}) {
  %e = nn.constant dense<true> : tensor<i1>
  %sum = dist.all_reduce sum %x over "tp+tq" : tensor<4xf32>
  %p, %v = nn.sgd %w, %sum, %m enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
  return %p, %v : tensor<4xf32>, tensor<4xf32>
}
}
