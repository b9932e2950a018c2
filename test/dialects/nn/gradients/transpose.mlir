// RUN: shale-run --check-gradient %s | FileCheck %s

// A permutation that is not its own inverse.
func.func @transpose(%a: tensor<2x3x4xf64>) -> tensor<4x2x3xf64> {
  %y = nn.transpose %a perm = [2, 0, 1] : tensor<2x3x4xf64> -> tensor<4x2x3xf64>
  return %y : tensor<4x2x3xf64>
}
// CHECK: @transpose argument 0: 24 elements
