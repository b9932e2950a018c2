// Schedule and plan change no bits. A planned program runs on bytes, and freed bytes read as NaN.
// RUN: shale-opt %s --shale-autodiff > %t.step.mlir
// RUN: shale-opt %t.step.mlir --shale-stage-schedule > %t.scheduled.mlir
// RUN: shale-opt %t.scheduled.mlir --shale-plan --shale-verify-plan > %t.planned.mlir
// RUN: shale-run %t.step.mlir --compare=%t.scheduled.mlir --exact | FileCheck %s
// RUN: shale-run %t.scheduled.mlir --compare=%t.planned.mlir --exact | FileCheck %s
// CHECK: @step: 9 values, 0 differ in their bits
// CHECK: @evaluate: 2 values, 0 differ in their bits

nn.state @wte role = param type = tensor<8x4xf32> {factors = #nn.update_factors<decay = 0.0>}
nn.state @w role = param type = tensor<4x4xf32>
nn.state @b role = param type = tensor<4xf32> {trained = false}
func.func @forward(
    %ids: tensor<2x3xi64> {nn.role = #nn.role<input>, nn.name = "ids"},
    %labels: tensor<2x3xi64> {nn.role = #nn.role<label>, nn.name = "labels"},
    %wte: tensor<8x4xf32> {nn.state = @wte}, %w: tensor<4x4xf32> {nn.state = @w},
    %b: tensor<4xf32> {nn.state = @b}) -> (tensor<f32>, tensor<f32>, tensor<f32>) {
  %0 = nn.embedding %wte, %ids {nn.scope = "emb"} : (tensor<8x4xf32>, tensor<2x3xi64>) -> tensor<2x3x4xf32>
  %1 = nn.reshape %0 : tensor<2x3x4xf32> -> tensor<6x4xf32>
  %2 = nn.matmul %1, %w {nn.scope = "h.0"} : (tensor<6x4xf32>, tensor<4x4xf32>) -> tensor<6x4xf32>
  %3 = nn.broadcast %b dims = [1] : tensor<4xf32> -> tensor<6x4xf32>
  %4 = nn.add %2, %3 : tensor<6x4xf32>
  %5 = nn.tanh %4 : tensor<6x4xf32>
  %table = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %rows = nn.broadcast %table dims = [1] : tensor<4xf32> -> tensor<6x4xf32>
  %scaled = nn.mul %5, %rows : tensor<6x4xf32>
  %6 = nn.matmul %scaled, %wte transpose_rhs : (tensor<6x4xf32>, tensor<8x4xf32>) -> tensor<6x8xf32>
  %7 = nn.reshape %labels : tensor<2x3xi64> -> tensor<6xi64>
  %sum, %count, %lse = nn.cross_entropy %6, %7 ignore_index = -100 : tensor<6x8xf32>, tensor<6xi64>
  %one = nn.constant dense<1.0> : tensor<f32>
  %d = nn.max %count, %one : tensor<f32>
  %loss = nn.div %sum, %d : tensor<f32>
  return %loss, %sum, %count : tensor<f32>, tensor<f32>, tensor<f32>
}
