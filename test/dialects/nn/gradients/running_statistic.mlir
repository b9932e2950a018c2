// RUN: shale-run --check-gradient %s | FileCheck %s

// The value and the gradient are those of the batch; the running statistic has none.
func.func @running_statistic(%a: tensor<5xf64>, %r: tensor<5xf64>) -> tensor<5xf64> {
  %0 = nn.mul %a, %a : tensor<5xf64>
  %1 = nn.running_statistic %0, %r momentum = 0.1 factor = 1.25 : tensor<5xf64>
  return %1 : tensor<5xf64>
}
// CHECK: @running_statistic argument 0: 5 elements
