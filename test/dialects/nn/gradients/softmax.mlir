// RUN: shale-run --check-gradient %s | FileCheck %s

// Along the last dimension.
func.func @softmax(%a: tensor<2x3x4xf64>) -> tensor<2x3x4xf64> {
  %0 = nn.softmax %a : tensor<2x3x4xf64>
  return %0 : tensor<2x3x4xf64>
}
// CHECK: @softmax argument 0: 24 elements
