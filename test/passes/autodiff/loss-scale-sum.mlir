// RUN: shale-opt %s --shale-autodiff="optimizer=sgd accumulate=2" --shale-verify-step | FileCheck %s

// The sum over two micro-batches of 12 labels each could overflow f16. So the first gradient is divided by 2 and by the power of two
// above 12, and unscaling by the loss scale corrects for it: gradients in f16 are as large as those of the mean of the step.
module attributes {nn.precision = #nn.precision<param = f16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<12x5xf32>

// CHECK-LABEL: func.func @accumulate_first
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32> {nn.state = @loss_scale}
// CHECK: %[[SHARE:.*]] = nn.constant {{.*}}dense<3.125000e-02>
// CHECK: %[[SEED:.*]] = nn.mul %[[S]], %[[SHARE]] {nn.phase = #backward}
// CHECK: nn.cross_entropy_grad {{.*}}%[[SEED]]
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32> {nn.state = @loss_scale}
// CHECK: %[[SEED:.*]] = nn.mul %[[S]], %{{.*}} {nn.phase = #backward}
// CHECK: nn.cross_entropy_grad {{.*}}%[[SEED]]
// CHECK: %[[DIVISOR:.*]] = nn.constant {{.*}}dense<3.200000e+01>
// CHECK: nn.div %[[DIVISOR]], %[[S]]
func.func @forward(%i: tensor<12xi64> {nn.role = #nn.role<label>, nn.name = "i"}, %w: tensor<12x5xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %sum, %count, %lse = nn.cross_entropy %w, %i ignore_index = -100 : tensor<12x5xf32>, tensor<12xi64>
  %one = nn.constant dense<1.0> : tensor<f32>
  %divisor = nn.max %count, %one : tensor<f32>
  %loss = nn.div %sum, %divisor : tensor<f32>
  return %loss, %sum, %count : tensor<f32>, tensor<f32>, tensor<f32>
}
}
