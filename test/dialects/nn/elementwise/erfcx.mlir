// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES
// RUN: shale-run --check-gradient --function=erfcx %s | FileCheck %s --check-prefix=GRADIENT

// CHECK-LABEL: func.func @erfcx
// CHECK: nn.erfcx %{{.*}} : tensor<2x3xf64>
// GRADIENT: @erfcx argument 0: 6 elements
func.func @erfcx(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %y = nn.erfcx %x : tensor<2x3xf64>
  return %y : tensor<2x3xf64>
}

// torch.special.erfcx of the same numbers.
// VALUES: result0: 6xf64 {{.*}} [1, 0.427583576, 5.00898008, 0.0561409927, 5.64189581e-05, inf]
func.func @values() -> tensor<6xf64> {
  %x = nn.constant dense<[0.0, 1.0, -1.0, 10.0, 1.0e4, -30.0]> : tensor<6xf64>
  %y = nn.erfcx %x : tensor<6xf64>
  return %y : tensor<6xf64>
}
