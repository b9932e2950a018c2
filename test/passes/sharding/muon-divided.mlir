// RUN: shale-opt %s --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s

// Matrices of one shape are divided among ranks, a transposed one among them: each rank orthogonalizes one. The third is alone, and
// each rank orthogonalizes it.
module attributes {dist.strategy = #dist.strategy<none>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<8x4xf32> {unit = "block"}
nn.state @v role = param type = tensor<4x8xf32> {unit = "block"}
nn.state @u role = param type = tensor<4x4xf32> {unit = "block"}
nn.state @w.momentum role = moment("momentum") type = tensor<8x4xf32> {of = @w}
nn.state @v.momentum role = moment("momentum") type = tensor<4x8xf32> {of = @v}
nn.state @u.momentum role = moment("momentum") type = tensor<4x4xf32> {of = @u}

// CHECK: func.func @step
// CHECK: %[[W:.*]] = nn.transpose %{{.*}} perm = [1, 0] {{.*}} : tensor<8x4xf32> -> tensor<4x8xf32>
// CHECK: %[[ONE:.*]] = nn.reshape %[[W]] {{.*}} : tensor<4x8xf32> -> tensor<1x4x8xf32>
// CHECK: %[[TWO:.*]] = nn.reshape %{{.*}} : tensor<4x8xf32> -> tensor<1x4x8xf32>
// CHECK: %[[ALL:.*]] = nn.concat %[[ONE]], %[[TWO]] dim = 0 {{.*}} -> tensor<2x4x8xf32>
// CHECK: %[[OWN:.*]] = dist.slice %[[ALL]] over "fsdp" dim = 0 {{.*}} -> tensor<1x4x8xf32>
// CHECK: nn.reshape %[[OWN]] {{.*}} -> tensor<4x8xf32>
// CHECK-COUNT-5: nn.matmul %{{.*}} transpose_rhs {{.*}} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x4xf32>
// CHECK: dist.all_gather %{{.*}} over "fsdp" dim = 0 {{.*}} : tensor<1x4x8xf32> -> tensor<2x4x8xf32>
// CHECK: nn.transpose %{{.*}} : tensor<4x8xf32> -> tensor<8x4xf32>
// CHECK-COUNT-5: nn.matmul %{{.*}} transpose_rhs {{.*}} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
// CHECK: dist.unit_pack @block[0] [@w, @v, @u]
func.func @step(%w: tensor<8x4xf32> {nn.state = @w}, %v: tensor<4x8xf32> {nn.state = @v}, %u: tensor<4x4xf32> {nn.state = @u}, %wm: tensor<8x4xf32> {nn.state = @w.momentum},
                %vm: tensor<4x8xf32> {nn.state = @v.momentum}, %um: tensor<4x4xf32> {nn.state = @u.momentum}, %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
    -> (tensor<8x4xf32> {nn.state = @w}, tensor<4x8xf32> {nn.state = @v}, tensor<4x4xf32> {nn.state = @u}, tensor<8x4xf32> {nn.state = @w.momentum}, tensor<4x8xf32> {nn.state = @v.momentum}, tensor<4x4xf32> {nn.state = @u.momentum}) {
  %e = nn.constant dense<true> : tensor<i1>
  %gw = nn.neg %w {nn.phase = #nn.phase<backward>} : tensor<8x4xf32>
  %gv = nn.neg %v {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %gu = nn.neg %u {nn.phase = #nn.phase<backward>} : tensor<4x4xf32>
  %w1, %wm1 = nn.muon %w, %gw, %wm enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<8x4xf32>, tensor<f32>
  %v1, %vm1 = nn.muon %v, %gv, %vm enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<4x8xf32>, tensor<f32>
  %u1, %um1 = nn.muon %u, %gu, %um enable %e scale %s lr %s beta %s nesterov %s match_rms_adamw %s weight_decay %s {nn.phase = #nn.phase<update>} : tensor<4x4xf32>, tensor<f32>
  return %w1, %v1, %u1, %wm1, %vm1, %um1 : tensor<8x4xf32>, tensor<4x8xf32>, tensor<4x4xf32>, tensor<8x4xf32>, tensor<4x8xf32>, tensor<4x4xf32>
}
}
