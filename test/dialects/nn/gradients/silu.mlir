// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element, in f64.
func.func @silu(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.silu %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @silu argument 0: 6 elements
