// RUN: shale-opt %s --split-input-file --shale-autodiff="optimizer=sgd" --shale-verify-step | FileCheck %s
// A target that does not exist is an error of the module.
// RUN: sed -e s/cuda:sm_90a/cuda:sm_1/ %s | not shale-opt --split-input-file --shale-autodiff 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: error: {{.*}}sm_1

// A step on a GPU starts before the process knows whether the previous step was applied. If that one was not, this one is not applied either.
module attributes {nn.target = "cuda:sm_90a"} {
nn.state @w role = param type = tensor<8xf32>

// CHECK-LABEL: func.func @step
// CHECK-SAME: {nn.name = "norm_limit", nn.role = #nn.role<hyper>}, %[[PREVIOUS:[a-z0-9]+]]: tensor<f32> {nn.name = "previous_enable", nn.role = #nn.role<hyper>})
// CHECK: nn.and
// CHECK: %[[OWN:.*]] = nn.and
// CHECK: %[[ZERO:.*]] = nn.constant dense<0.000000e+00>
// CHECK: %[[GOES_ON:.*]] = nn.compare gt %[[PREVIOUS]], %[[ZERO]]
// CHECK: %[[ENABLE:.*]] = nn.and %[[OWN]], %[[GOES_ON]]
// CHECK: nn.sgd {{.*}} enable %[[ENABLE]]
// CHECK: return %{{.*}}, %{{.*}}, %[[ENABLE]],
func.func @forward(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.mul %x, %w : tensor<8xf32>
  %1 = nn.reduce sum %0 dims = [0] : tensor<8xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  return %1, %1, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
}

// -----

// There is no such check on the CPU, nor with a loss scale, where a run continues after a step that was not applied.
module attributes {nn.target = "cuda:sm_90a", nn.precision = #nn.precision<param = f16, reduce = f32, buffer = f32, master = f32, optimizer = f32>} {
nn.state @w role = param type = tensor<8xf32>

// CHECK-LABEL: func.func @step
// CHECK-NOT: previous_enable
func.func @forward(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.mul %x, %w : tensor<8xf32>
  %1 = nn.reduce sum %0 dims = [0] : tensor<8xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  return %1, %1, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
}

// -----

module attributes {nn.target = "cpu:x86-64-v3"} {
nn.state @w role = param type = tensor<8xf32>

// CHECK-LABEL: func.func @step
// CHECK-NOT: previous_enable
func.func @forward(%x: tensor<8xf32> {nn.role = #nn.role<input>, nn.name = "x"}, %w: tensor<8xf32> {nn.state = @w})
    -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.mul %x, %w : tensor<8xf32>
  %1 = nn.reduce sum %0 dims = [0] : tensor<8xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  return %1, %1, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
}
