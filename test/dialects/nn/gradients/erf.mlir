// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element, in f64.
func.func @erf(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.erf %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @erf argument 0: 6 elements
