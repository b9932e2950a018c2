// The op is parsed and printed, and its gradient is that of central differences.
// RUN: shale-opt %acme %s | shale-opt %acme | FileCheck %s
// RUN: shale-run %acme --check-gradient %s | FileCheck %s --check-prefix=GRADIENT
// CHECK: acme.snake %{{.*}} alpha = 5.000000e-01 : tensor<5x7xf64>
// GRADIENT: @snake argument 0: 35 elements, largest error
func.func @snake(%x: tensor<5x7xf64>) -> tensor<5x7xf64> {
  %y = acme.snake %x alpha = 0.5 : tensor<5x7xf64>
  return %y : tensor<5x7xf64>
}
