// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES
// RUN: shale-run --check-gradient --function=log1p %s | FileCheck %s --check-prefix=GRADIENT

// CHECK-LABEL: func.func @log1p
// CHECK: nn.log1p %{{.*}} : tensor<2x3xf64>
// GRADIENT: @log1p argument 0: 6 elements
func.func @log1p(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // Above -1: x^2.
  %s = nn.mul %x, %x : tensor<2x3xf64>
  %y = nn.log1p %s : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}

// Where exp(x) - 1, log(1 + x) or 1 - erf(x) has lost its digits, these functions have all.
// VALUES: result0: 5xf64 {{.*}} [1e-10, -1e-10, 0, 0.693147181, 23.0258509]
func.func @values() -> tensor<5xf64> {
  %x = nn.constant dense<[1.0e-10, -1.0e-10, 0.0, 1.0, 1.0e10]> : tensor<5xf64>
  %y = nn.log1p %x : tensor<5xf64>
  return %y : tensor<5xf64>
}
