// Gradients of slices that are next to each other are joined, in the order of the slices.
// RUN: shale-opt %s --shale-autodiff | FileCheck %s
// RUN: shale-run --check-gradient %s | FileCheck %s --check-prefix=GRADIENT
// GRADIENT: argument 0: 20 elements

nn.state @w role = param type = tensor<4x5xf32>

// CHECK-LABEL: func.func @step
// Three slices along columns become one concatenation, without sums and zeros.
// CHECK-NOT: nn.pad
// CHECK: nn.concat %{{.*}}, %{{.*}}, %{{.*}} dim = 1 {nn.phase = #backward} : (tensor<4x2xf32>, tensor<4x1xf32>, tensor<4x2xf32>) -> tensor<4x5xf32>
// CHECK-NOT: nn.pad
// CHECK: nn.adamw
func.func @forward(%w: tensor<4x5xf32> {nn.state = @w}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %c = nn.slice %w starts = [0, 3] limits = [4, 5] strides = [1, 1] : tensor<4x5xf32> -> tensor<4x2xf32>
  %a = nn.slice %w starts = [0, 0] limits = [4, 2] strides = [1, 1] : tensor<4x5xf32> -> tensor<4x2xf32>
  %b = nn.slice %w starts = [0, 2] limits = [4, 3] strides = [1, 1] : tensor<4x5xf32> -> tensor<4x1xf32>
  %ac = nn.mul %a, %c : tensor<4x2xf32>
  %s = nn.reduce sum %ac dims = [0, 1] : tensor<4x2xf32> -> tensor<f32>
  %bb = nn.mul %b, %b : tensor<4x1xf32>
  %t = nn.reduce sum %bb dims = [0, 1] : tensor<4x1xf32> -> tensor<f32>
  %sum = nn.add %s, %t : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  return %sum, %sum, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
