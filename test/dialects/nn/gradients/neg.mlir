// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element, in f64.
func.func @neg(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.neg %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @neg argument 0: 6 elements
