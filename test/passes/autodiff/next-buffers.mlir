// A result of @forward that is the new value of a buffer makes it running state: each micro-batch returns it, and @evaluate does not.
// RUN: shale-opt %s --shale-autodiff="optimizer=sgd" --shale-verify-step | FileCheck %s
// RUN: shale-opt %s --shale-autodiff="optimizer=sgd accumulate=2" --shale-verify-step | FileCheck %s --check-prefix=MICRO
nn.state @w role = param type = tensor<4xf32>
nn.state @mean role = buffer type = tensor<4xf32>

// CHECK: nn.state @mean role = running
// CHECK: func.func @step
// CHECK: %[[HALF:.*]] = nn.mul %{{.*}}, %{{.*}} : tensor<4xf32>
// CHECK: return {{.*}}%[[HALF]]
// CHECK: func.func @evaluate
// CHECK-SAME: -> (tensor<f32> {{{.*}}"loss_sum"{{.*}}}, tensor<f32> {{{.*}}"count"{{.*}}})
// MICRO: func.func @accumulate_first{{.*}} -> ({{.*}}{nn.state = @mean}
func.func @forward(%w: tensor<4xf32> {nn.state = @w}, %mean: tensor<4xf32> {nn.state = @mean})
    -> (tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32> {nn.gradient_of = @w}, tensor<4xf32> {nn.state = @mean}) {
  %loss = nn.reduce sum %w dims = [0] : tensor<4xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %grad = nn.constant dense<1.0> : tensor<4xf32>
  %next = nn.mul %mean, %w : tensor<4xf32>
  return %loss, %loss, %one, %grad, %next : tensor<f32>, tensor<f32>, tensor<f32>, tensor<4xf32>, tensor<4xf32>
}
