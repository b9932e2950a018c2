// RUN: shale-run --check-gradient %s | FileCheck %s

// The gradient is reshaped back.
func.func @reshape(%a: tensor<2x3xf64>) -> tensor<3x2x1xf64> {
  %y = nn.reshape %a : tensor<2x3xf64> -> tensor<3x2x1xf64>
  return %y : tensor<3x2x1xf64>
}
// CHECK: @reshape argument 0: 6 elements
