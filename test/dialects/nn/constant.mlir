// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Ops without operands.
// CHECK-LABEL: func.func @constants
// CHECK: nn.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK: nn.iota dim = 1 : tensor<4x8xi64>
func.func @constants() {
  %0 = nn.constant dense<1.000000e+00> : tensor<4xf32>
  %1 = nn.iota dim = 1 : tensor<4x8xi64>
  return
}
