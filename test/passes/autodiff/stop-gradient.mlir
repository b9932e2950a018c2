// The gradient of sum(y * stop(y)) with y = x w is x * stop(y): it goes through one of the two factors. Afterwards no op is left.
// RUN: shale-opt %s --shale-autodiff="optimizer=sgd" --shale-verify-step | FileCheck %s --implicit-check-not nn.stop_gradient
nn.state @w role = param type = tensor<8xf32>

// CHECK: func.func @step(%[[X:arg0]]: tensor<8xf32>
// CHECK: %[[Y:.*]] = nn.mul %[[X]], %arg1 {{.*}}#forward
// CHECK: nn.mul %[[Y]], %[[Y]] {{.*}}#forward
// CHECK: %[[G:.*]] = nn.mul %{{.*}}, %[[Y]] {{.*}}#backward
// CHECK: nn.mul %[[G]], %[[X]] {{.*}}#backward
// CHECK-NOT: nn.add {{.*}}#backward
// CHECK: func.func @evaluate
// CHECK: %[[Z:.*]] = nn.mul %arg0, %arg1
// CHECK: nn.mul %[[Z]], %[[Z]]
func.func @forward(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %y = nn.mul %x, %w : tensor<8xf32>
  %stopped = nn.stop_gradient %y : tensor<8xf32>
  %square = nn.mul %y, %stopped : tensor<8xf32>
  %sum = nn.reduce sum %square dims = [0] : tensor<8xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  return %sum, %sum, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
