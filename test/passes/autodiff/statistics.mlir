// The statistic of the batch takes the op's place in @step, the running one in @evaluate. Each micro-batch returns the new state, also where a
// statistic is updated twice.
// RUN: shale-opt %s --shale-autodiff="optimizer=sgd accumulate=3" --shale-verify-step | FileCheck %s --implicit-check-not nn.running_statistic
nn.state @w role = param type = tensor<4xf32>
nn.state @mean role = buffer type = tensor<4xf32>

// CHECK: nn.state @mean role = running type = tensor<4xf32>
// CHECK: func.func @accumulate_first({{.*}} %[[M:arg[0-9]+]]: tensor<4xf32> {nn.state = @mean}
// CHECK-SAME: tensor<4xf32> {nn.state = @mean})
// CHECK: func.func @accumulate(
// CHECK-SAME: tensor<4xf32> {nn.state = @mean})
// CHECK: func.func @step(%[[X:.*]]: tensor<4xf32> {{.*}}, %[[W:.*]]: tensor<4xf32> {nn.state = @w}, %[[M:.*]]: tensor<4xf32> {nn.state = @mean}
// CHECK-SAME: tensor<4xf32> {nn.state = @mean})
// CHECK: %[[Y:.*]] = nn.mul %[[X]], %[[W]]
// CHECK-DAG: %[[OLD:.*]] = nn.constant {{.*}}dense<7.500000e-01>
// CHECK-DAG: %[[KEPT:.*]] = nn.mul %[[M]], %[[OLD]]
// CHECK-DAG: %[[NEW:.*]] = nn.constant {{.*}}dense<5.000000e-01>
// CHECK-DAG: %[[PART:.*]] = nn.mul %[[Y]], %[[NEW]]
// CHECK: %[[ONCE:.*]] = nn.add %[[KEPT]], %[[PART]]
// CHECK: %[[TWICE:.*]] = nn.add
// CHECK: return {{.*}}, %[[TWICE]] :
// CHECK: func.func @evaluate(%{{.*}}: tensor<4xf32> {{.*}}, %{{.*}}: tensor<4xf32> {nn.state = @w}, %[[M:.*]]: tensor<4xf32> {nn.state = @mean})
// CHECK: nn.mul %[[M]], %[[M]]
func.func @forward(%x: tensor<4xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<4xf32> {nn.state = @w},
                   %m: tensor<4xf32> {nn.state = @mean}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %y = nn.mul %x, %w : tensor<4xf32>
  %s = nn.running_statistic %y, %m momentum = 0.25 factor = 2.0 : tensor<4xf32>
  %t = nn.running_statistic %y, %m momentum = 0.25 factor = 1.0 : tensor<4xf32>
  %square = nn.mul %s, %t : tensor<4xf32>
  %sum = nn.reduce sum %square dims = [0] : tensor<4xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  return %sum, %sum, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
