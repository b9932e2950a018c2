// RUN: shale-run %s | FileCheck %s
// RUN: shale-run %s --as f64 | FileCheck %s --check-prefix=F64

// Fusing changes no bits: 2049 is rounded to 2048 inside a cluster too.
// CHECK-LABEL: @rounding
// CHECK: result0: 1xf16 {{.*}} [0]
// F64: result0: 1xf16 {{.*}} [1]
func.func @rounding() -> tensor<1xf16> {
  %a = nn.constant dense<2048.0> : tensor<1xf16>
  %b = nn.constant dense<1.0> : tensor<1xf16>
  %0 = nn.cluster (%x = %a : tensor<1xf16>, %y = %b : tensor<1xf16>) -> tensor<1xf16> {
    %1 = nn.add %x, %y : tensor<1xf16>
    %2 = nn.sub %1, %x : tensor<1xf16>
    nn.yield %2 : tensor<1xf16>
  }
  return %0 : tensor<1xf16>
}
