// RUN: not shale-run --check-gradient %s 2>&1 | FileCheck %s

// Its derivative is 1, and its gradient is 0.
func.func @stop_gradient(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.stop_gradient %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}
// CHECK: gradient of argument 0, element 0: 0.000000, central difference 0.
