// RUN: shale-opt %s --split-input-file --shale-propagate --shale-verify-sharded --shale-partition --shale-materialize-units | FileCheck %s

// One rank of two under `full`: 9 elements are padded to 10, and the rank stores a slice of 5.
// CHECK: dist.unit @root on @mesh["fsdp"] groups = [#dist.group<"f32", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 10, segments = [#dist.segment<@w, offset = 0, shape = [3, 3], factors = #nn.update_factors<decay = 1.000000e-01>>] storage = <gathered f32 rest = "fsdp" update = "fsdp" sums = "fsdp" steps = [#dist.reduction_step<["fsdp"] scatter>]>>]
// CHECK: nn.state @root.f32 role = param type = tensor<10xf32> {dist.axis = "fsdp", dist.group = 0 : i64, dist.unit = @root
// CHECK: nn.state @root.f32.momentum role = moment("momentum") type = tensor<10xf32> {dist.axis = "fsdp"
// CHECK-NOT: nn.state @w.momentum
// CHECK-LABEL: func.func @step
// CHECK-SAME: %{{.*}}: tensor<2x3xf32> {{{.*}}nn.name = "x"
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<5xf32> {nn.state = @root.f32}, %[[M:[a-z0-9]+]]: tensor<5xf32> {nn.state = @root.f32.momentum}
// CHECK: %[[G:.*]] = dist.unit_gather %[[W]] @root[0] over "fsdp" {mem.recompute} : tensor<5xf32> -> tensor<10xf32>
// CHECK: %[[V:.*]] = dist.unit_view %[[G]] @root[0] @w : tensor<10xf32> -> tensor<3x3xf32>
// CHECK: nn.matmul %{{.*}}, %[[V]] : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
// CHECK: %[[D:.*]] = nn.matmul %{{.*}} transpose_lhs : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<3x3xf32>
// CHECK: %[[PACK:.*]] = dist.unit_pack @root[0] [@w](%[[D]]) : (tensor<3x3xf32>) -> tensor<10xf32>
// CHECK: %[[S:.*]] = dist.reduce_scatter sum %[[PACK]] over "fsdp" dim = 0 : tensor<10xf32> -> tensor<5xf32>
// CHECK: %[[Q:.*]] = nn.sum_squares %[[S]]
// CHECK: dist.all_reduce sum %[[Q]] over "fsdp"
// CHECK: dist.coordinate "fsdp"
// CHECK: nn.sgd %[[W]], %[[S]], %[[M]] {{.*}}offset %{{.*}} segments = [#nn.update_range<offset = 0, count = 9, factors = #nn.update_factors<decay = 1.000000e-01>>] : tensor<5xf32>
module attributes {dist.strategy = #dist.strategy<full>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<3x3xf32>
nn.state @w.momentum role = moment("momentum") type = tensor<3x3xf32> {of = @w}
func.func @step(%x: tensor<4x3xf32> {nn.role = #nn.role<input>, nn.name = "x", nn.batch_dim = 0 : i64},
    %w: tensor<3x3xf32> {nn.state = @w}, %m: tensor<3x3xf32> {nn.state = @w.momentum},
    %lr: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
    -> (tensor<f32> {nn.role = #nn.role<metric>, nn.name = "norm"}, tensor<3x3xf32> {nn.state = @w}, tensor<3x3xf32> {nn.state = @w.momentum}) {
  %0 = nn.matmul %x, %w : (tensor<4x3xf32>, tensor<3x3xf32>) -> tensor<4x3xf32>
  %1 = nn.matmul %x, %0 transpose_lhs : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %2 = nn.sum_squares %1 : (tensor<3x3xf32>) -> tensor<f32>
  %e = nn.constant dense<true> : tensor<i1>
  %p, %v = nn.sgd %w, %1, %m enable %e scale %lr lr %lr momentum %lr weight_decay %lr factors <decay = 1.000000e-01> : tensor<3x3xf32>, tensor<f32>
  return %2, %p, %v : tensor<f32>, tensor<3x3xf32>, tensor<3x3xf32>
}
}

// -----

// A transposed copy of what is gathered again for the backward pass is made again, too; what is computed from it is not.
// CHECK-LABEL: func.func @step
// CHECK: nn.transpose %{{.*}} perm = [1, 0] {mem.recompute, nn.phase = #forward} : tensor<4x3xf32> -> tensor<3x4xf32>
// CHECK: nn.exp %{{[a-z0-9]+}} {nn.phase = #forward} : tensor<3x4xf32>
module attributes {dist.strategy = #dist.strategy<full>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<4x3xf32>
nn.state @w.momentum role = moment("momentum") type = tensor<4x3xf32> {of = @w}
func.func @step(%x: tensor<4x3xf32>, %w: tensor<4x3xf32> {nn.state = @w}, %m: tensor<4x3xf32> {nn.state = @w.momentum}, %lr: tensor<f32>)
    -> (tensor<3x3xf32>, tensor<4x3xf32> {nn.state = @w}, tensor<4x3xf32> {nn.state = @w.momentum}) {
  %e = nn.constant dense<true> : tensor<i1>
  %turned = nn.transpose %w perm = [1, 0] {nn.phase = #nn.phase<forward>} : tensor<4x3xf32> -> tensor<3x4xf32>
  %power = nn.exp %turned {nn.phase = #nn.phase<forward>} : tensor<3x4xf32>
  %y = nn.matmul %power, %x {nn.phase = #nn.phase<forward>} : (tensor<3x4xf32>, tensor<4x3xf32>) -> tensor<3x3xf32>
  %p, %v = nn.sgd %w, %x, %m enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4x3xf32>, tensor<f32>
  return %y, %p, %v : tensor<3x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>
}
}

// -----

// The group is packed from the gradient before its sum. The all-reduce stays for its other readers.
// CHECK-LABEL: func.func @step
// CHECK: %[[X:.*]] = nn.exp %{{.*}} : tensor<4xf32>
// CHECK: dist.unit_pack @root[0] [@w](%[[X]])
// CHECK: dist.reduce_scatter
// CHECK: %[[S:.*]] = dist.all_reduce sum %[[X]] over "fsdp" : tensor<4xf32>
// CHECK: nn.reduce max %[[S]]
// CHECK: nn.sgd
module attributes {dist.strategy = #dist.strategy<full>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<4xf32>
nn.state @w.momentum role = moment("momentum") type = tensor<4xf32> {of = @w}
func.func @step(%x: tensor<4xf32>, %w: tensor<4xf32> {nn.state = @w}, %m: tensor<4xf32> {nn.state = @w.momentum}, %lr: tensor<f32>)
    -> (tensor<f32>, tensor<4xf32> {nn.state = @w}, tensor<4xf32> {nn.state = @w.momentum}) {
  %e = nn.constant dense<true> : tensor<i1>
  %mine = nn.exp %x : tensor<4xf32>
  %sum = dist.all_reduce sum %mine over "fsdp" : tensor<4xf32>
  %most = nn.reduce max %sum dims = [0] : tensor<4xf32> -> tensor<f32>
  %p, %v = nn.sgd %w, %sum, %m enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
  return %most, %p, %v : tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
}

// -----

// A running statistic is in no group: it is whole on every rank, and the statistic of the batch is summed over the ranks.
// CHECK: dist.unit @root {{.*}}@w
// CHECK-NOT: @mean
// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<4xf32> {nn.state = @mean}
// CHECK: %[[PART:.*]] = nn.reduce sum %{{.*}} : tensor<1x4xf32> -> tensor<4xf32>
// CHECK: %[[SUM:.*]] = dist.all_reduce sum %[[PART]] over "fsdp" : tensor<4xf32>
// CHECK: %[[NEW:.*]] = nn.add %{{.*}}, %[[SUM]] : tensor<4xf32>
// CHECK: return {{.*}}, %[[NEW]] :
module attributes {dist.strategy = #dist.strategy<full>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<4xf32>
nn.state @w.momentum role = moment("momentum") type = tensor<4xf32> {of = @w}
nn.state @mean role = running type = tensor<4xf32>
func.func @step(%x: tensor<2x4xf32> {dist.sharding = #dist.sharding<[{"fsdp"}, {}]>}, %w: tensor<4xf32> {nn.state = @w},
                %m: tensor<4xf32> {nn.state = @w.momentum}, %mean: tensor<4xf32> {nn.state = @mean}, %lr: tensor<f32>)
    -> (tensor<4xf32> {nn.state = @w}, tensor<4xf32> {nn.state = @w.momentum}, tensor<4xf32> {nn.state = @mean}) {
  %e = nn.constant dense<true> : tensor<i1>
  %sum = nn.reduce sum %x dims = [0] : tensor<2x4xf32> -> tensor<4xf32>
  %new = nn.add %mean, %sum : tensor<4xf32>
  %p, %v = nn.sgd %w, %w, %m enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
  return %p, %v, %new : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
}

// -----

// Each segment has its parameter's factor on the learning rate; the update of the group has none.
// CHECK: dist.unit @root {{.*}}segments = [#dist.segment<@v, offset = 0, shape = [4], factors = #nn.update_factors<lr_scale = 5.000000e-01>>, #dist.segment<@w, offset = 16, shape = [4]>]
// CHECK: nn.sgd {{.*}}segments = [#nn.update_range<offset = 0, count = 4, factors = #nn.update_factors<lr_scale = 5.000000e-01>>, #nn.update_range<offset = 16, count = 4>]
// CHECK-NOT: lr_scale
module attributes {dist.strategy = #dist.strategy<full>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @v role = param type = tensor<4xf32>
nn.state @w role = param type = tensor<4xf32>
nn.state @v.momentum role = moment("momentum") type = tensor<4xf32> {of = @v}
nn.state @w.momentum role = moment("momentum") type = tensor<4xf32> {of = @w}
func.func @step(%v: tensor<4xf32> {nn.state = @v}, %w: tensor<4xf32> {nn.state = @w}, %mv: tensor<4xf32> {nn.state = @v.momentum},
    %mw: tensor<4xf32> {nn.state = @w.momentum}, %lr: tensor<f32>) -> (tensor<4xf32> {nn.state = @v}, tensor<4xf32> {nn.state = @w},
    tensor<4xf32> {nn.state = @v.momentum}, tensor<4xf32> {nn.state = @w.momentum}) {
  %e = nn.constant dense<true> : tensor<i1>
  %gv = nn.neg %v : tensor<4xf32>
  %gw = nn.neg %w : tensor<4xf32>
  %v1, %mv1 = nn.sgd %v, %gv, %mv enable %e scale %lr lr %lr momentum %lr weight_decay %lr factors <lr_scale = 0.5> : tensor<4xf32>, tensor<f32>
  %w1, %mw1 = nn.sgd %w, %gw, %mw enable %e scale %lr lr %lr momentum %lr weight_decay %lr : tensor<4xf32>, tensor<f32>
  return %v1, %w1, %mv1, %mw1 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
}
