// RUN: shale-opt %s --shale-autodiff=optimizer=sgd | shale-run --steps=2 --lr=0.125 --momentum=0 --weight-decay=0 | FileCheck %s
// RUN: shale-opt %s --shale-autodiff=optimizer=sgd | shale-run --steps=1 --lr=0.125 --momentum=0 --weight-decay=0 --clip-grad-norm=2 --out=%t.safetensors
// RUN: %python %S/read.py %t.safetensors | FileCheck %s --check-prefix=CLIP

// The matmul p * q0 * q1 at p = 0, q = 2: only p has a gradient, 4. A step of
// 1/8 makes p = -1/2; then the loss is -2, the gradients are 4, -1, -1.
// CHECK: {"step": 0, "loss": 0, "grad_norm": 4, "enable": true}
// CHECK: {"step": 1, "loss": -2, "grad_norm": 4.2426405, "enable": true}
// Clipped to 2 (over 4 + 1e-6) the step is half as large.
// CLIP: p [-0.25]
// CLIP: q [2.0, 2.0]
nn.state @p role = param type = tensor<1xf32>
nn.state @q role = param type = tensor<2xf32> {init = #nn.fill<2.0 : f64>}
func.func @forward(%p: tensor<1xf32> {nn.state = @p}, %q: tensor<2xf32> {nn.state = @q}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.concat %p, %q dim = 0 : (tensor<1xf32>, tensor<2xf32>) -> tensor<3xf32>
  %1 = nn.reduce prod %0 dims = [0] : tensor<3xf32> -> tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  return %1, %1, %one : tensor<f32>, tensor<f32>, tensor<f32>
}
