// RUN: shale-run --check-gradient %s | FileCheck %s

// Its derivative is zero everywhere.
func.func @ceil(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.ceil %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @ceil argument 0: 6 elements
