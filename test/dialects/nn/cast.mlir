// RUN: shale-opt %s | shale-opt | FileCheck %s
// RUN: shale-opt %s --mlir-print-op-generic | shale-opt | FileCheck %s

// Operand and result of different element types.
// CHECK-LABEL: func.func @cast
// CHECK: nn.cast %{{.*}} : tensor<4xi64> -> tensor<4xf32>
func.func @cast(%i: tensor<4xi64>) {
  %0 = nn.cast %i : tensor<4xi64> -> tensor<4xf32>
  return
}
