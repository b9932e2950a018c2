// RUN: shale-run --check-gradient %s | FileCheck %s

// A cast between float types.
func.func @cast(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %f = nn.cast %a : tensor<2x3xf64> -> tensor<2x3xf32>
  %y = nn.cast %f : tensor<2x3xf32> -> tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// A cast to an integer has no gradient.
func.func @cast_integer(%a: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %i = nn.cast %a : tensor<2x3xf64> -> tensor<2x3xi64>
  %y = nn.cast %i : tensor<2x3xi64> -> tensor<2x3xf64>
  %s = nn.add %y, %a : tensor<2x3xf64>
  return %s : tensor<2x3xf64>
}
// CHECK: @cast argument 0: 6 elements
// CHECK: @cast_integer argument 0: 6 elements
