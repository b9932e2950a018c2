// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES
// RUN: shale-run --check-gradient --function=expm1 %s | FileCheck %s --check-prefix=GRADIENT

// CHECK-LABEL: func.func @expm1
// CHECK: nn.expm1 %{{.*}} : tensor<2x3xf64>
// GRADIENT: @expm1 argument 0: 6 elements
func.func @expm1(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.expm1 %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}

// Where exp(x) - 1, log(1 + x) or 1 - erf(x) has lost its digits, these functions have all.
// VALUES: result0: 5xf64 {{.*}} [1e-10, -1e-10, 0, 1.71828183, -1]
func.func @values() -> tensor<5xf64> {
  %x = nn.constant dense<[1.0e-10, -1.0e-10, 0.0, 1.0, -50.0]> : tensor<5xf64>
  %y = nn.expm1 %x : tensor<5xf64>
  return %y : tensor<5xf64>
}
