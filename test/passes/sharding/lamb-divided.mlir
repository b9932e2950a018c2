// RUN: shale-opt %s --shale-propagate --shale-partition --shale-materialize-units | FileCheck %s

// The two parts of a parameter, both split over tp, have one norm: means of the parts are summed over tp, become sums by the number of elements, and
// are added.
// CHECK: func.func @step
// CHECK: dist.all_reduce sum %{{.*}} over "tp" {{.*}} : tensor<4xf32>
// CHECK: %[[SUMS:.*]] = nn.mul {{.*}} : tensor<2xf32>
// CHECK: nn.slice %[[SUMS]]
// CHECK: nn.slice %[[SUMS]]
// CHECK: %[[WHOLE:.*]] = nn.add {{.*}} : tensor<1xf32>
// CHECK: nn.concat %[[WHOLE]], %[[WHOLE]] dim = 0
module attributes {dist.strategy = #dist.strategy<none>} {
  dist.mesh @mesh <[tensor "tp"=2]>
  nn.state @w role = divided type = tensor<8x8xf32>
  nn.state @"w/0" role = param type = tensor<4x8xf32> {unit = "block", nn.part = #nn.part<@w, dim = 0, begin = 0>}
  nn.state @"w/1" role = param type = tensor<4x8xf32> {unit = "block", nn.part = #nn.part<@w, dim = 0, begin = 4>}
  nn.state @m01 role = moment("moment1") type = tensor<4x8xf32> {of = @"w/0"}
  nn.state @m02 role = moment("moment2") type = tensor<4x8xf32> {of = @"w/0"}
  nn.state @m11 role = moment("moment1") type = tensor<4x8xf32> {of = @"w/1"}
  nn.state @m12 role = moment("moment2") type = tensor<4x8xf32> {of = @"w/1"}
  func.func @step(%a: tensor<4x8xf32> {nn.state = @"w/0", dist.sharding = #dist.sharding<[{"tp"}, {}]>}, %b: tensor<4x8xf32> {nn.state = @"w/1", dist.sharding = #dist.sharding<[{"tp"}, {}]>}, %m: tensor<4x8xf32> {nn.state = @m01}, %v: tensor<4x8xf32> {nn.state = @m02}, %n: tensor<4x8xf32> {nn.state = @m11}, %u: tensor<4x8xf32> {nn.state = @m12}, %s: tensor<f32> {nn.role = #nn.role<hyper>, nn.name = "lr"})
      -> (tensor<4x8xf32> {nn.state = @"w/0"}, tensor<4x8xf32> {nn.state = @"w/1"}, tensor<4x8xf32> {nn.state = @m01}, tensor<4x8xf32> {nn.state = @m02}, tensor<4x8xf32> {nn.state = @m11}, tensor<4x8xf32> {nn.state = @m12}) {
    %e = nn.constant dense<true> : tensor<i1>
    %ga = nn.neg %a {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
    %gb = nn.neg %b {nn.phase = #nn.phase<backward>} : tensor<4x8xf32>
    %a1, %m1, %v1 = nn.lamb %a, %ga, %m, %v enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s {nn.phase = #nn.phase<update>} : tensor<4x8xf32>, tensor<f32>
    %b1, %n1, %u1 = nn.lamb %b, %gb, %n, %u enable %e scale %s lr %s beta1 %s beta2 %s epsilon %s weight_decay %s bias1 %s bias2 %s {nn.phase = #nn.phase<update>} : tensor<4x8xf32>, tensor<f32>
    return %a1, %b1, %m1, %v1, %n1, %u1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
}
