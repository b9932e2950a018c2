// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-run %s --function=values | FileCheck %s --check-prefix=VALUES
// RUN: shale-run --check-gradient --function=xlogy %s | FileCheck %s --check-prefix=GRADIENT

// CHECK-LABEL: func.func @xlogy
// CHECK: nn.xlogy %{{.*}}, %{{.*}} : tensor<2x3xf64>
// GRADIENT: @xlogy argument 0: 6 elements
// GRADIENT: @xlogy argument 1: 6 elements
func.func @xlogy(%x: tensor<2x3xf64>, %y: tensor<2x3xf64>) -> tensor<2x3xf64> {
  // The second operand is positive: y^2 + 1/2.
  %h = nn.constant dense<0.5> : tensor<2x3xf64>
  %s = nn.mul %y, %y : tensor<2x3xf64>
  %p = nn.add %s, %h : tensor<2x3xf64>
  %z = nn.xlogy %x, %p : tensor<2x3xf64>
  return %z : tensor<2x3xf64>
}

// 0 where the first operand is 0, unless the second is NaN (0x7FF8000000000000).
// VALUES: result0: 6xf64 {{.*}} [0, 0, 0, nan, -inf, 1.38629436]
func.func @values() -> tensor<6xf64> {
  %x = nn.constant dense<[0.0, 0.0, 0.0, 0.0, 1.0, 2.0]> : tensor<6xf64>
  %y = nn.constant dense<[0.0, -1.0, 0x7FF0000000000000, 0x7FF8000000000000, 0.0, 2.0]> : tensor<6xf64>
  %z = nn.xlogy %x, %y : tensor<6xf64>
  return %z : tensor<6xf64>
}
