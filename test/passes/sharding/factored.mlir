// RUN: sed s/STRATEGY/full/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=CHECK,FULL
// RUN: sed s/STRATEGY/none/ %s | shale-opt --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s --check-prefixes=CHECK,NONE

// The moments of a matrix of 4 x 8 and a vector of 5 are 12 and 5 elements: a group of its own, whole on every rank, with the second one at a
// multiple of 64 bytes. A rank has the means of its slice; they are summed, both kinds at once, and so are those of the direction.
module attributes {dist.strategy = #dist.strategy<STRATEGY>} {
dist.mesh @mesh <[shard "fsdp"=2]>
nn.state @w role = param type = tensor<4x8xf32> {unit = "u"}
nn.state @b role = param type = tensor<5xf32> {unit = "u", factors = #nn.update_factors<decay = 0.0>}
nn.state @w.variance role = moment("variance") type = tensor<12xf32> {of = @w}
nn.state @b.variance role = moment("variance") type = tensor<5xf32> {of = @b}

// CHECK: dist.unit @u on @mesh["fsdp"] groups = [#dist.group<"f32", {{.*}} count = 38, segments = [{{.*}}] storage = <{{.*}}>>, #dist.group<"f32.variance", type = f32, wire = f32, reduce = f32, trained = true, axes = [], count = 22, segments = [#dist.segment<@w, offset = 0, shape = [12]>, #dist.segment<@b, offset = 16, shape = [5], factors = #nn.update_factors<decay = 0.000000e+00>>], slot = "variance">]
// CHECK: nn.state @u.f32.variance role = moment("variance") type = tensor<22xf32> {dist.group = 1 : i64, dist.unit = @u, of = @u.f32, trained = true}
// CHECK: func.func @step
// FULL-SAME: %[[PARAM:[a-z0-9]+]]: tensor<19xf32>
// NONE-SAME: %[[PARAM:[a-z0-9]+]]: tensor<38xf32>
// CHECK-SAME: %[[MOMENT:[a-z0-9]+]]: tensor<22xf32>
// FULL: %[[MEANS:.*]] = nn.segment_means %{{.*}} squares factors offset %[[AT:.*]] : tensor<i64> segments = [#nn.factored_range<offset = 0, shape = [4, 8], at = 0>, #nn.factored_range<offset = 32, shape = [5], at = 16>]{{.*}} : tensor<19xf32> -> tensor<22xf32>
// FULL: %[[SQUARES:.*]] = nn.segment_means %[[PARAM]] squares offset %[[AT]] {{.*}} : tensor<19xf32> -> tensor<2xf32>
// FULL: %[[BOTH:.*]] = nn.concat %[[MEANS]], %[[SQUARES]]
// FULL: dist.all_reduce sum %[[BOTH]] over "fsdp" {{.*}} : tensor<24xf32>
// The one matrix is a row of its rows, whose mean divides them.
// CHECK: %[[MATRICES:.*]] = nn.segment_means %[[NEXT:[^ ]*]] factors segments = [#nn.factored_range<offset = 0, shape = [1, 4], at = 0>]{{.*}} : tensor<22xf32> -> tensor<5xf32>
// CHECK: nn.segment_broadcast %[[MATRICES]] rows segments = [#nn.factored_range<offset = 0, shape = [1, 4], {{.*}} : tensor<5xf32> -> tensor<22xf32>
// CHECK: %[[ROWS:.*]] = nn.div %[[NEXT]], %{{.*}} : tensor<22xf32>
// FULL: nn.segment_broadcast %[[ROWS]] rows offset %[[AT]] {{.*}} : tensor<22xf32> -> tensor<19xf32>
// FULL: nn.segment_broadcast %[[NEXT]] columns offset %[[AT]] {{.*}} : tensor<22xf32> -> tensor<19xf32>
// FULL: %[[DIRECTIONS:.*]] = nn.segment_means %{{.*}} squares offset %[[AT]] {{.*}} : tensor<19xf32> -> tensor<2xf32>
// FULL: dist.all_reduce sum %[[DIRECTIONS]] over "fsdp" {{.*}} : tensor<2xf32>
// FULL: nn.segment_broadcast %{{.*}} offset %[[AT]] {{.*}} : tensor<2xf32> -> tensor<19xf32>
// NONE-NOT: dist.all_reduce
// NONE: nn.segment_means {{.*}} squares segments = {{.*}} : tensor<38xf32> -> tensor<2xf32>
// NONE-NOT: dist.all_reduce
// NONE: nn.segment_broadcast %{{.*}} segments = {{.*}} : tensor<2xf32> -> tensor<38xf32>
func.func @step(%w: tensor<4x8xf32> {nn.state = @w}, %b: tensor<5xf32> {nn.state = @b}, %wv: tensor<12xf32> {nn.state = @w.variance},
                %bv: tensor<5xf32> {nn.state = @b.variance}, %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
    -> (tensor<4x8xf32> {nn.state = @w}, tensor<5xf32> {nn.state = @b}, tensor<12xf32> {nn.state = @w.variance}, tensor<5xf32> {nn.state = @b.variance}) {
  %e = nn.constant dense<true> : tensor<i1>
  %gw = nn.neg %w {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
  %gb = nn.neg %b {nn.phase = #nn.phase<backward>} : tensor<5xf32>
  %w1, %wv1 = nn.adafactor %w, %gw, %wv enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s {nn.phase = #nn.phase<update>} : tensor<4x8xf32> state tensor<12xf32>, tensor<f32>
  %b1, %bv1 = nn.adafactor %b, %gb, %bv enable %e scale %s lr %s beta2_decay %s epsilon1 %s epsilon2 %s clip %s weight_decay %s weight %s limit %s factors <decay = 0.0> {nn.phase = #nn.phase<update>} : tensor<5xf32>, tensor<f32>
  return %w1, %b1, %wv1, %bv1 : tensor<4x8xf32>, tensor<5xf32>, tensor<12xf32>, tensor<5xf32>
}
}
