// RUN: shale-opt %s --shale-autodiff="optimizer=sgd" --shale-verify-step | FileCheck %s

// Gradients are f16: the gradient of the loss starts with the scale, and norm and clipping divide by it. The scale is halved
// when a value is not finite, but not when the norm is above its limit, and doubled after 2000 steps without a skip.
module attributes {nn.precision = #nn.precision<param = f16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<8xf32>

// CHECK-DAG: nn.state @loss_scale role = loss_scale type = tensor<f32> {init = #nn.fill<6.553600e+04 : f64>}
// CHECK-DAG: nn.state @loss_scale.good_steps role = loss_scale type = tensor<f32> {init = #nn.fill<0.000000e+00 : f64>}
// CHECK: func.func @step
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<8xf32> {nn.state = @w}
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32> {nn.state = @loss_scale}
// CHECK-SAME: %[[N:[a-z0-9]+]]: tensor<f32> {nn.state = @loss_scale.good_steps}
// CHECK: nn.broadcast %[[S]]
// CHECK: %[[SQUARES:.*]] = nn.sum_squares
// CHECK: %[[ROOT:.*]] = nn.sqrt %[[SQUARES]]
// CHECK: %[[UNSCALE:.*]] = nn.div %{{.*}}, %[[S]]
// CHECK: %[[NORM:.*]] = nn.mul %[[ROOT]], %[[UNSCALE]]
// CHECK: %[[FACTOR:.*]] = nn.mul %{{.*}}, %[[UNSCALE]]
// CHECK: %[[FINITE:.*]] = nn.and
// CHECK: %[[ENABLE:.*]] = nn.and %[[FINITE]]
// CHECK: nn.sgd {{.*}} enable %[[ENABLE]] scale %[[FACTOR]]
// CHECK: %[[GOOD:.*]] = nn.add %[[N]]
// CHECK: %[[GROWS:.*]] = nn.compare ge %[[GOOD]]
// CHECK: %[[TWICE:.*]] = nn.mul %[[S]]
// CHECK: %[[GROWN:.*]] = nn.select %[[GROWS]], %[[TWICE]], %[[S]]
// CHECK: %[[HALF:.*]] = nn.mul %[[S]]
// CHECK: %[[NEXT:.*]] = nn.select %[[FINITE]], %[[GROWN]], %[[HALF]]
// The count of steps without a skip restarts at 0 after a skipped step and after the scale was doubled.
// CHECK: %[[NONE:.*]] = nn.constant dense<0.000000e+00>
// CHECK: %[[ROW:.*]] = nn.select %[[GROWS]], %[[NONE]], %[[GOOD]]
// CHECK: %[[STEPS:.*]] = nn.select %[[FINITE]], %[[ROW]], %[[NONE]]
// CHECK: return %{{.*}}, %[[NORM]], %[[ENABLE]], %[[S]], {{.*}}, %[[NEXT]], %[[STEPS]] :
func.func @forward(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.mul %x, %w : tensor<8xf32>
  %1 = nn.reduce sum %0 dims = [0] : tensor<8xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  return %1, %1, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
}
