// RUN: shale-opt %s --shale-autodiff="optimizer=sgd accumulate=2" --shale-verify-step | FileCheck %s
// RUN: sed s/reduce\ =\ f32/reduce\ =\ f16/ %s | shale-opt --shale-autodiff="optimizer=sgd accumulate=2" | FileCheck %s --check-prefix=HALF

// The gradients of a sum over 12 labels pass through f16 as large as those of a mean: the power of two below 12 is taken
// out of the seed and put back with the loss scale; where sums of two micro-batches are sent in f16, twice that.
module attributes {nn.precision = #nn.precision<param = f16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<12x5xf32>

// CHECK-LABEL: func.func @accumulate_first
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32> {nn.state = @loss_scale}
// CHECK: %[[SHARE:.*]] = nn.constant {{.*}}dense<1.250000e-01>
// CHECK: %[[SEED:.*]] = nn.mul %[[S]], %[[SHARE]] {nn.phase = #nn.phase<backward>}
// CHECK: nn.cross_entropy_grad {{.*}}%[[SEED]]
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[S:[a-z0-9]+]]: tensor<f32> {nn.state = @loss_scale}
// CHECK: %[[SEED:.*]] = nn.mul %[[S]], %{{.*}} {nn.phase = #nn.phase<backward>}
// CHECK: nn.cross_entropy_grad {{.*}}%[[SEED]]
// CHECK: %[[EIGHT:.*]] = nn.constant {{.*}}dense<8.000000e+00>
// CHECK: nn.div %[[EIGHT]], %[[S]]
// HALF: nn.constant {{.*}}dense<6.250000e-02>
// HALF-LABEL: func.func @step
// HALF: nn.constant {{.*}}dense<1.600000e+01>
func.func @forward(%i: tensor<12xi64> {nn.role = #nn.role<label>, nn.name = "i"}, %w: tensor<12x5xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %sum, %count, %lse = nn.cross_entropy %w, %i ignore_index = -100 : tensor<12x5xf32>, tensor<12xi64>
  %one = nn.constant dense<1.0> : tensor<f32>
  %divisor = nn.max %count, %one : tensor<f32>
  %loss = nn.div %sum, %divisor : tensor<f32>
  return %loss, %sum, %count : tensor<f32>, tensor<f32>, tensor<f32>
}
}
