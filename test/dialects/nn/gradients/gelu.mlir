// RUN: shale-run --check-gradient %s | FileCheck %s

// The exact form and the tanh approximation.
func.func @gelu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.gelu %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
func.func @gelu_tanh(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.gelu %x tanh : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @gelu argument 0: 6 elements
// CHECK: @gelu_tanh argument 0: 6 elements
