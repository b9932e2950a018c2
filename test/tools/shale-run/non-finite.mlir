// RUN: shale-opt %s --shale-autodiff | shale-run --steps=2 --lr=1 | FileCheck %s

// log(0) is not finite: the update is disabled, and the state does not change.
// CHECK: {"step": 0, "loss": -inf, "grad_norm": inf, "enable": false}
// CHECK: {"step": 1, "loss": -inf, "grad_norm": inf, "enable": false}
nn.state @p role = param type = tensor<f32>
func.func @forward(%p: tensor<f32> {nn.state = @p}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.log %p : tensor<f32>
  return %0, %0, %0 : tensor<f32>, tensor<f32>, tensor<f32>
}
