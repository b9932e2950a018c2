// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element, in f64.
func.func @cos(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.cos %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @cos argument 0: 6 elements
