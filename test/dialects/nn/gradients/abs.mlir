// RUN: shale-run --check-gradient %s | FileCheck %s

// Central differences of every element, in f64.
func.func @abs(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.abs %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: @abs argument 0: 6 elements
