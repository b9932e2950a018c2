// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES
// RUN: shale-run --check-gradient --function=erfc %s | FileCheck %s --check-prefix=GRADIENT

// CHECK-LABEL: func.func @erfc
// CHECK: nn.erfc %{{.*}} : tensor<2x3xf64>
// GRADIENT: @erfc argument 0: 6 elements
func.func @erfc(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.erfc %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}

// Where exp(x) - 1, log(1 + x) or 1 - erf(x) has lost its digits, these functions have all.
// VALUES: result0: 4xf64 {{.*}} [1, 0.157299207, 1.84270079, 2.08848758e-45]
func.func @values() -> tensor<4xf64> {
  %x = nn.constant dense<[0.0, 1.0, -1.0, 10.0]> : tensor<4xf64>
  %y = nn.erfc %x : tensor<4xf64>
  return %y : tensor<4xf64>
}
