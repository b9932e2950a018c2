// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element, in f64.
func.func @sin(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.sin %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @sin argument 0: 6 elements
