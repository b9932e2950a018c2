// RUN: sed s/STRATEGY/full/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: sed s/STRATEGY/none/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=CHECK,NONE

// Parameters of another optimizer are a group of their own. Muon's momentum is sliced as its parameter is; what it orthogonalizes is
// gathered. Its matrix is taller than wide, so that the square matmuls are of its columns.
module attributes {dist.strategy = #dist.strategy<STRATEGY>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<8x4xf32> {unit = "u", factors = #nn.update_factors<lr_scale = 0.5>}
nn.state @b role = param type = tensor<6xf32> {unit = "u", nn.optimizer = "lion"}
nn.state @w.momentum role = moment("momentum") type = tensor<8x4xf32> {of = @w}
nn.state @b.momentum role = moment("momentum") type = tensor<6xf32> {of = @b}

// CHECK: dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", {{.*}} count = 32, segments = [#dist.segment<@w, {{.*}}] storage = <{{.*}}>>, #dist.group<"f32.lion", {{.*}} count = 6, segments = [#dist.segment<@b, {{.*}}] storage = <{{.*}}>>]
// CHECK: func.func @step
// FULL-SAME: %[[W:[a-z0-9]+]]: tensor<16xf32> {nn.state = @u.f32}, %[[B:[a-z0-9]+]]: tensor<3xf32> {nn.state = @u.f32.lion}, %[[WM:[a-z0-9]+]]: tensor<16xf32>
// NONE-SAME: %[[W:[a-z0-9]+]]: tensor<32xf32> {nn.state = @u.f32}, %[[B:[a-z0-9]+]]: tensor<6xf32> {nn.state = @u.f32.lion}, %[[WM:[a-z0-9]+]]: tensor<32xf32>
// FULL: dist.all_gather %{{.*}} over "fsdp" dim = 0 {{.*}} : tensor<16xf32> -> tensor<32xf32>
// NONE-NOT: dist.all_gather
// CHECK: %[[X:.*]] = nn.reshape %{{.*}} : tensor<32xf32> -> tensor<8x4xf32>
// CHECK: nn.sum_squares %[[X]]
// CHECK-COUNT-5: nn.matmul %{{.*}}, %{{.*}} transpose_lhs {{.*}} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
// CHECK: %[[D:.*]] = dist.unit_pack @u[0] [@w]
// FULL: %[[OWN:.*]] = dist.slice %[[D]] over "fsdp" dim = 0
// FULL: nn.muon_step %[[W]], %{{.*}}, %[[WM]], %[[OWN]] {{.*}} offset %{{.*}} segments = [#nn.update_range<offset = 0, count = 32, factors = #nn.update_factors<lr_scale = 5.000000e-01>>]
// NONE: nn.muon_step %[[W]], %{{.*}}, %[[WM]], %[[D]] {{.*}} segments = [#nn.update_range<offset = 0, count = 32, factors = #nn.update_factors<lr_scale = 5.000000e-01>>]
// CHECK: nn.lion %[[B]]
func.func @step(%w: tensor<8x4xf32> {nn.state = @w}, %b: tensor<6xf32> {nn.state = @b}, %wm: tensor<8x4xf32> {nn.state = @w.momentum},
                %bm: tensor<6xf32> {nn.state = @b.momentum}, %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
    -> (tensor<8x4xf32> {nn.state = @w}, tensor<6xf32> {nn.state = @b}, tensor<8x4xf32> {nn.state = @w.momentum}, tensor<6xf32> {nn.state = @b.momentum}) {
  %e = nn.constant dense<true> : tensor<i1>
  %gw = nn.neg %w {nn.phase = #nn.phase<backward>} : tensor<8x4xf32>
  %gb = nn.neg %b {nn.phase = #nn.phase<backward>} : tensor<6xf32>
  %w1, %wm1 = nn.muon %w, %gw, %wm enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s factors <lr_scale = 0.5> {nn.phase = #nn.phase<update>} : tensor<8x4xf32>, tensor<f32>
  %b1, %bm1 = nn.lion %b, %gb, %bm enable %e scale %s lr %s beta1 %s beta2 %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<6xf32>, tensor<f32>
  return %w1, %b1, %wm1, %bm1 : tensor<8x4xf32>, tensor<6xf32>, tensor<8x4xf32>, tensor<6xf32>
}
}
