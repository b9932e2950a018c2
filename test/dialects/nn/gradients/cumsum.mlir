// RUN: shale-run --check-gradient %s | FileCheck %s

// Inclusive and exclusive, forward and reverse.
func.func @cumsum0(%a: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %0 = nn.cumsum %a dim = 0 : tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}
func.func @cumsum1(%a: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %0 = nn.cumsum %a dim = 1 exclusive : tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}
func.func @cumsum2(%a: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %0 = nn.cumsum %a dim = 0 reverse : tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}
func.func @cumsum3(%a: tensor<2x4xf64>) -> tensor<2x4xf64> {
  %0 = nn.cumsum %a dim = 1 exclusive reverse : tensor<2x4xf64>
  return %0 : tensor<2x4xf64>
}
// CHECK: @cumsum0 argument 0: 8 elements
// CHECK: @cumsum1 argument 0: 8 elements
// CHECK: @cumsum2 argument 0: 8 elements
// CHECK: @cumsum3 argument 0: 8 elements
