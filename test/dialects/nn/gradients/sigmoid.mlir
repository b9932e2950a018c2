// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element, in f64.
func.func @sigmoid(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.sigmoid %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @sigmoid argument 0: 6 elements
